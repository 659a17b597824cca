//! Hands out turns: which syncs read their next page now.

use std::time::Duration;

use super::super::Accounts;
use super::turn::{self, LEASE_SECONDS};
use belvedere_storage::store::StoreError;
use belvedere_storage::store::external_accounts::{self, DueSync};
use belvedere_web::fair_share::{Bounds, FairPool, Permit, Tenant};

/// Concurrent pages on this host. Most of a page's time goes to waiting for PDSs.
const MAX_TURNS: usize = 16;

/// Concurrent pages of one tenant.
const MAX_PER_TENANT: usize = 8;

/// Concurrent pages of one plugin, so that a slow service delays the syncs of others little, and users who link an account
/// find a permit too.
const MAX_PER_PLUGIN: usize = 3;

/// Syncs of one plugin that are read together: two tenants can have all their permits in use, and their syncs may not hide those
/// of a third.
const DUE_OF_PLUGIN: u32 = 3 * MAX_PER_PLUGIN as u32;

/// Syncs that are read together: of more plugins than can have all their permits in use.
const BATCH: u32 = 256;

/// Time between two looks for syncs that other hosts have left, or that were postponed.
const PERIOD: Duration = Duration::from_secs(1);

/// The permits of pages that are read and written at the same time.
#[derive(Clone, Debug)]
pub struct Turns {
    tenants: FairPool,
    plugins: FairPool,
}

impl Default for Turns {
    fn default() -> Self {
        let bounds = |per_tenant| Bounds {
            permits: MAX_TURNS,
            per_tenant,
            // Nothing waits here: a sync without a permit stays due in the database.
            waiting: 0,
            waiting_per_tenant: 0,
            max_wait: Duration::ZERO,
        };
        Self {
            tenants: FairPool::new("external_syncs", bounds(MAX_PER_TENANT)),
            plugins: FairPool::new("external_syncs_of_plugins", bounds(MAX_PER_PLUGIN)),
        }
    }
}

impl Turns {
    /// The permits of a page; `None` if all that it may take are in use.
    fn try_take(&self, due: &DueSync) -> Option<(Permit, Permit)> {
        let tenant = super::super::tenant_of(&due.tenant);
        let plugin = Tenant::client(due.plugin_id.as_str());
        Some((self.tenants.try_enter(&tenant).ok()?, self.plugins.try_enter(&plugin).ok()?))
    }
}

/// Hands out turns until the server drains.
pub(in crate::plugins::accounts) async fn run(accounts: Accounts) {
    let stop = accounts.core().drain.clone();
    while !stop.is_cancelled() {
        let due = accounts.0.due.notified();
        match stop.run_until_cancelled(accounts.start_turns()).await {
            None => return,
            Some(Ok(())) => {}
            Some(Err(error)) => tracing::warn!(%error, "syncs of external accounts can't be read"),
        }
        let _ = stop.run_until_cancelled(tokio::time::timeout(PERIOD, due)).await;
    }
}

impl Accounts {
    /// Starts a turn for each sync that is due and finds a permit. The others stay due: the longest waiting one is first when a
    /// permit becomes free.
    async fn start_turns(&self) -> Result<(), StoreError> {
        let (db, now) = (&self.core().db, self.core().clock.now());
        let together = MAX_PER_PLUGIN as u32;
        for due in external_accounts::due_syncs(db, now, BATCH, together, DUE_OF_PLUGIN).await? {
            let Some(permits) = self.0.turns.try_take(&due) else { continue };
            let holder = self.core().random.uuid();
            let until = now.plus_seconds(LEASE_SECONDS);
            let Some(row) = external_accounts::take_sync(db, &due.id, &holder, now, until).await? else {
                continue;
            };
            let accounts = self.clone();
            self.core().tasks.spawn(async move {
                turn::run(&accounts, row, &holder).await;
                drop(permits);
                accounts.0.due.notify_waiters();
            });
        }
        Ok(())
    }
}
