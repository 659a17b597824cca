//! Work in the background: it delivers notices, copies repos of other hosts, and removes expired rows. While spaces are switched off it does nothing, and
//! reads no table. Every host does it: each step can run on several at once.

use std::time::Duration;

use super::{Spaces, delivery};
use belvedere_base::clock::Timestamp;
use belvedere_storage::store::StoreError;
use belvedere_storage::store::spaces::{copies, credentials, deletion, deliveries, invites, registrations};
use belvedere_web::fair_share::Permit;

/// Interval between looks at the queue of notices. Writes of this host are noticed at once; the others are writes of other hosts
/// and repeated attempts.
const QUEUE_INTERVAL: Duration = Duration::from_secs(1);

/// Interval between sweeps. Each is a few indexed queries.
const SWEEP_INTERVAL: Duration = Duration::from_secs(30);

/// Sweeps after which one looks at all accounts that were deleted in the last week, not only at the latest: half an hour.
const SWEEPS_PER_FULL: u32 = 60;

/// Time before a sweep in which an account may have been deleted that the sweeps before have not seen.
const RECENT_SECONDS: i64 = 5 * 60;

/// Deleted accounts of one sweep.
const MAX_ACCOUNTS: u32 = 100;

/// Time for which the delivery of a notice is tried.
const NOTICE_SECONDS: i64 = 24 * 60 * 60;

/// Time for which an expired credential is kept: longer than the clocks of two hosts differ.
const EXPIRED_SECONDS: i64 = 60;

/// Rows deleted in one statement: few enough not to delay requests that write.
const ROWS_PER_STEP: u32 = 1_000;

impl Spaces {
    /// Starts the work, until the server drains.
    pub fn start_workers(&self) {
        let core = self.core();
        core.tasks.spawn(self.clone().deliver_periodically());
        core.tasks.spawn(self.clone().copy_periodically());
        core.tasks.spawn(self.clone().sweep_periodically());
    }

    async fn deliver_periodically(self) {
        let drain = self.core().drain.clone();
        while !drain.is_cancelled() {
            if self.check_enabled().is_ok()
                && let Err(error) = self.deliver().await
            {
                tracing::warn!(%error, "the queue of notices of spaces can't be read");
            }
            tokio::select! {
                () = drain.cancelled() => {}
                () = self.0.queued.notified() => {}
                () = tokio::time::sleep(QUEUE_INTERVAL) => {}
            }
        }
    }

    async fn copy_periodically(self) {
        let drain = self.core().drain.clone();
        while !drain.is_cancelled() {
            if self.check_enabled().is_ok()
                && let Err(error) = self.copy_what_is_due().await
            {
                tracing::warn!(%error, "the spaces and repos of other hosts that are due can't be read");
            }
            tokio::select! {
                () = drain.cancelled() => {}
                () = self.0.changed.notified() => {}
                () = tokio::time::sleep(QUEUE_INTERVAL) => {}
            }
        }
    }

    /// Runs an attempt of which the database has the lease, with its permit.
    pub(super) fn spawn_attempt(
        &self,
        permit: Permit,
        attempt: impl Future<Output = Result<(), StoreError>> + Send + 'static,
    ) {
        let drain = self.core().drain.clone();
        // The future is large: a call of a PDS is in it.
        let attempt = Box::pin(attempt);
        self.core().tasks.spawn(async move {
            let _permit = permit;
            if let Some(Err(error)) = drain.run_until_cancelled(attempt).await {
                tracing::warn!(%error, "the result of an attempt could not be stored; it is repeated");
            }
        });
    }

    async fn sweep_periodically(self) {
        let drain = self.core().drain.clone();
        let mut sweeps = 0;
        loop {
            if self.check_enabled().is_ok() {
                let recent = self.core().clock.now().plus_seconds(-RECENT_SECONDS);
                let since = if sweeps % SWEEPS_PER_FULL == 0 { Timestamp(0) } else { recent };
                if let Err(error) = self.sweep(since).await {
                    tracing::warn!(%error, "what expired in spaces could not be removed; the next sweep tries again");
                } else {
                    sweeps += 1;
                }
            }
            if drain.run_until_cancelled(tokio::time::sleep(SWEEP_INTERVAL)).await.is_none() {
                return;
            }
        }
    }

    /// Removes the rest of deleted spaces, the rows of accounts that were deleted since a time, and expired rows.
    async fn sweep(&self, since: Timestamp) -> Result<(), StoreError> {
        let (db, now) = (&self.core().db, self.core().clock.now());
        for did in deletion::deleted_accounts(db, since, MAX_ACCOUNTS).await? {
            self.announce_revoked(deletion::purge_account(db, &did, now).await?);
        }
        deletion::purge(db, now).await?;
        copies::purge(db).await?;
        let is_full = |removed: u64| removed == u64::from(ROWS_PER_STEP);
        while is_full(credentials::prune(db, now.plus_seconds(-EXPIRED_SECONDS), ROWS_PER_STEP).await?) {}
        while is_full(registrations::prune(db, now, ROWS_PER_STEP).await?) {}
        while is_full(invites::prune_attempts(db, now, ROWS_PER_STEP).await?) {}
        loop {
            let dropped = deliveries::prune(db, now.plus_seconds(-NOTICE_SECONDS), ROWS_PER_STEP).await?;
            delivery::count("dropped", dropped);
            if !is_full(dropped) {
                break;
            }
        }
        let waiting = deliveries::count(db).await?;
        metrics::gauge!("belvedere_space_notices_waiting").set(waiting as f64);
        Ok(())
    }
}
