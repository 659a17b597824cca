//! Removes expired sign-ins and values of plugins, and unlinks the accounts of removed plugins and of users who
//! were deleted on the network.

use std::time::Duration;

use super::Accounts;
use super::flow::LIFETIME_SECONDS;
use belvedere_storage::store::{StoreError, external_accounts, external_auth_states, plugin_values, plugins};

/// Time between sweeps. Each is a few indexed queries.
const PERIOD: Duration = Duration::from_mins(1);

/// Time by which the values that a plugin keeps for a sign-in may outlive it, in seconds: the call that completes it
/// may still run.
const SPARE_SECONDS: i64 = 300;

/// Sweeps immediately and then every minute until the server drains.
pub(super) async fn run(accounts: Accounts) {
    let stop = accounts.core().drain.clone();
    loop {
        if let Err(error) = accounts.sweep().await {
            tracing::warn!(%error, "expired sign-ins could not be removed; the next sweep is in a minute");
        }
        if stop.run_until_cancelled(tokio::time::sleep(PERIOD)).await.is_none() {
            return;
        }
    }
}

impl Accounts {
    /// Runs one sweep.
    pub(super) async fn sweep(&self) -> Result<(), StoreError> {
        let (db, now) = (&self.core().db, self.core().clock.now());
        let latest = now.plus_seconds(LIFETIME_SECONDS + SPARE_SECONDS);
        external_auth_states::prune(db, now, latest).await?;
        plugin_values::prune(db, now).await?;
        // After a crash in the middle of a removal, and for accounts whose plugin went without them.
        let mut gone = plugins::removing(db).await?;
        gone.extend(external_accounts::without_plugin(db).await?);
        for plugin in gone {
            self.remove_all(&plugin).await?;
        }
        self.unlink_deleted_users().await
    }
}
