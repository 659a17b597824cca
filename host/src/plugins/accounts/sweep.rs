//! Removes expired sign-ins and values of plugins, and unlinks the accounts of users who were deleted on the network.

use std::time::Duration;

use super::Accounts;
use super::flow::LIFETIME_SECONDS;
use crate::store::{StoreError, external_accounts, external_auth_states};

/// Time between sweeps. Each is a few indexed queries.
const PERIOD: Duration = Duration::from_mins(1);

/// How long what a plugin keeps for a sign-in may outlive it, in seconds: the call that completes it may still run.
const SPARE_SECONDS: i64 = 300;

/// Values deleted in one statement, so that other writes don't wait long.
const BATCH_ROWS: u32 = 1_000;

/// Sweeps immediately and then every minute until the server drains.
pub(super) async fn run(accounts: Accounts) {
    let stop = accounts.deps().drain.clone();
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
        let (db, now) = (&self.deps().db, self.deps().clock.now());
        let latest = now.plus_seconds(LIFETIME_SECONDS + SPARE_SECONDS);
        external_auth_states::prune(db, now, latest).await?;
        while external_accounts::prune_values(db, now, BATCH_ROWS).await? == u64::from(BATCH_ROWS) {}
        self.unlink_deleted_users().await
    }
}
