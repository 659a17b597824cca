//! Unlinks accounts: at once here, and in the background at the service, again while it fails. The row stays until the
//! tokens are revoked, so that any host goes on after a restart.

use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream;

use super::super::calls::{CallError, FaultCode};
use super::{AccountError, Accounts, scope_of};
use belvedere_instance::events::Event;
use belvedere_storage::store::StoreError;
use belvedere_storage::store::external_accounts::{self, AccountRow};

/// Time for which a revocation is repeated, in seconds. Later the tokens have expired, or the service is gone.
pub(super) const GIVE_UP_SECONDS: i64 = 86_400;

/// The same for the accounts of a plugin that is removed: its operator waits for that.
const REMOVAL_GIVE_UP_SECONDS: i64 = 300;

/// Time between two looks for revocations that other hosts have queued, or that are to be repeated.
const PERIOD: Duration = Duration::from_secs(2);

/// Revocations that are read together. The next ones are read when these have ended.
const BATCH: u32 = 32;

/// Revocations of one plugin in a batch, so that a slow service delays the others little: fewer than
/// [`CONCURRENT`].
const OF_PLUGIN: u32 = 2;

/// Concurrent revocations: calls of plugins wait for the network most of the time.
const CONCURRENT: usize = 4;

/// After this time another host repeats an attempt whose end is not stored, in seconds: longer than a call of a plugin.
const ATTEMPT_SECONDS: i64 = 120;

/// Most seconds between two attempts; the first pause is a second, each further one four times as long.
const MAX_PAUSE_SECONDS: i64 = 6 * 3600;

/// Accounts that are unlinked in one transaction, so that other writes don't wait long.
const BATCH_ROWS: u32 = 500;

impl Accounts {
    /// Unlinks a user's account, and revokes its tokens in the background. Returns whether there was one.
    ///
    /// # Errors
    /// 404 when there is neither such an account nor such a plugin.
    pub async fn unlink(&self, did: &str, plugin: &str) -> Result<bool, AccountError> {
        let now = self.core().clock.now();
        let give_up_at = now.plus_seconds(GIVE_UP_SECONDS);
        // Without a check of the plugin: an account can be unlinked whatever has become of the plugin.
        let unlinked = external_accounts::unlink(&self.core().db, did, plugin, now, give_up_at).await?;
        let Some(row) = unlinked else {
            return match self.active(plugin) {
                Ok(_) | Err(AccountError::Paused) => Ok(false),
                Err(error) => Err(error),
            };
        };
        self.unlinked(&[row], "user");
        Ok(true)
    }

    /// Unlinks all accounts of a plugin that is being removed, and revokes their tokens in the background for some minutes.
    /// Returns how many. The plugin must stay loaded until it has none.
    ///
    /// # Errors
    /// When the store fails. The next call completes what is left.
    pub async fn remove_all(&self, plugin: &str) -> Result<usize, StoreError> {
        let mut total = 0;
        loop {
            let now = self.core().clock.now();
            let give_up_at = now.plus_seconds(REMOVAL_GIVE_UP_SECONDS);
            let db = &self.core().db;
            let rows = external_accounts::unlink_of_plugin(db, plugin, now, give_up_at, BATCH_ROWS).await?;
            total += rows.len();
            self.unlinked(&rows, "plugin_removed");
            if rows.len() < BATCH_ROWS as usize {
                return Ok(total);
            }
        }
    }

    /// Unlinks the accounts of users whose own accounts were deleted on the network.
    pub(super) async fn unlink_deleted_users(&self) -> Result<(), StoreError> {
        let now = self.core().clock.now();
        let (db, give_up_at) = (&self.core().db, now.plus_seconds(GIVE_UP_SECONDS));
        let rows = external_accounts::unlink_of_deleted_users(db, now, give_up_at, BATCH_ROWS).await?;
        self.unlinked(&rows, "account_deleted");
        Ok(())
    }

    fn unlinked(&self, rows: &[AccountRow], reason: &'static str) {
        for row in rows {
            self.core().events.record(Event::ExternalAccountUnlinked {
                did: row.did.clone(),
                plugin: row.plugin_id.clone(),
                account: row.account_id.clone(),
                reason,
            });
        }
        if !rows.is_empty() {
            self.0.unlinked.notify_waiters();
            self.0.due.notify_waiters();
        }
    }

    /// Revokes the tokens of accounts that are due. Returns how many were tried.
    pub(super) async fn revoke_due(&self) -> Result<usize, StoreError> {
        let (db, now) = (&self.core().db, self.core().clock.now());
        let due = external_accounts::due_revocations(db, now, BATCH, OF_PLUGIN).await?;
        let count = due.len();
        let mut attempts = stream::iter(due).map(|row| self.attempt(row)).buffer_unordered(CONCURRENT);
        while let Some(attempt) = attempts.next().await {
            if let Err(error) = attempt {
                tracing::warn!(%error, "the end of a revocation could not be stored; it is repeated");
            }
        }
        Ok(count)
    }

    async fn attempt(&self, row: AccountRow) -> Result<(), StoreError> {
        let (db, clock) = (&self.core().db, &self.core().clock);
        let until = clock.now().plus_seconds(ATTEMPT_SECONDS);
        if !external_accounts::begin_revocation(db, &row, until).await? {
            return Ok(());
        }
        let Err(error) = self.revoke(&row).await else {
            return external_accounts::remove(db, &row).await;
        };
        let again = clock.now().plus_seconds(pause_seconds(row.attempts));
        let gives_up = is_final(&error) || row.give_up_at.is_none_or(|at| again > at);
        let (id, plugin) = (&row.id, &row.plugin_id);
        if !gives_up {
            tracing::info!(id, plugin, %error, "the tokens of an external account could not be revoked yet");
            return external_accounts::postpone_revocation(db, id, again).await;
        }
        tracing::warn!(id, plugin, %error, "the tokens of an external account could not be revoked; they expire");
        external_accounts::remove(db, &row).await?;
        self.core().events.record(Event::ExternalAccountRevocationFailed {
            did: row.did,
            plugin: row.plugin_id,
            account: row.account_id,
            error: error.public_text(),
        });
        Ok(())
    }

    async fn revoke(&self, row: &AccountRow) -> Result<(), AccountError> {
        let unknown = || AccountError::UnknownPlugin(row.plugin_id.clone());
        let plugin = self.0.linkers.get(&row.plugin_id).ok_or_else(unknown)?;
        let opened = self.open(row.clone())?;
        match plugin.revoke(&scope_of(row), &opened.tokens).await {
            Ok(()) | Err(CallError::Unsupported(_)) => Ok(()),
            // The service has no such call, or has ended the tokens itself.
            Err(CallError::Fault(fault))
                if matches!(fault.code, FaultCode::Unsupported | FaultCode::NeedsReauth) =>
            {
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// Revokes tokens until the server drains.
pub(super) async fn run(accounts: Accounts) {
    let stop = accounts.core().drain.clone();
    while !stop.is_cancelled() {
        let queued = accounts.0.due.notified();
        match stop.run_until_cancelled(accounts.revoke_due()).await {
            None => return,
            Some(Ok(1..)) => continue,
            Some(Ok(0)) => {}
            Some(Err(error)) => tracing::warn!(%error, "tokens of external accounts could not be revoked"),
        }
        let _ = stop.run_until_cancelled(tokio::time::timeout(PERIOD, queued)).await;
    }
}

/// Whether no later attempt can succeed.
fn is_final(error: &AccountError) -> bool {
    matches!(error, AccountError::Sealed(_))
}

/// The time until the next attempt, after `attempts` failed ones before the last.
fn pause_seconds(attempts: i64) -> i64 {
    let power = u32::try_from(attempts).unwrap_or(u32::MAX);
    4_i64.saturating_pow(power).min(MAX_PAUSE_SECONDS)
}
