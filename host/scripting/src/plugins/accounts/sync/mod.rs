//! Syncs: reads an account page by page, and writes its records into the user's repo.
//!
//! A host takes a sync for one page ([`turn`]), stores the checkpoint and releases it. So the pages of many users alternate,
//! and after a crash another host reads the page again whose checkpoint is missing; records that it finds in the index as
//! they are to be written are not written again.

pub(in crate::plugins::accounts) mod items;
mod stop;
pub(in crate::plugins::accounts) mod turn;
mod worker;

pub use worker::Turns;
pub(super) use worker::run;

use std::time::Duration;

use super::{AccountError, AccountUser, Accounts};
use belvedere_storage::store::external_accounts::{self, AccountRow, AccountStatus, SyncStatus};

/// Time that a request waits for the sync that it starts or joins: most end in this time, and proxies wait for longer.
const MAX_WAIT: Duration = Duration::from_secs(25);

/// Interval at which a waiting request looks whether another host has ended its sync.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// The progress of a sync.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyncState {
    pub is_running: bool,
    /// Items that were read.
    pub processed: i64,
    /// Records that were new or changed.
    pub written: i64,
    /// Items that are not valid records.
    pub skipped: i64,
    /// Code and text of the error that ended the sync.
    pub error: Option<(String, String)>,
}

impl SyncState {
    /// The last sync of an account.
    pub fn of(row: &AccountRow) -> Self {
        let is_running = row.sync_status == SyncStatus::Running;
        let error = row.sync_error.as_deref().filter(|_| !is_running);
        Self {
            is_running,
            processed: row.sync_processed,
            written: row.sync_written,
            skipped: row.sync_skipped,
            error: error.map(|error| {
                let (code, text) = error.split_once(": ").unwrap_or(("internal", error));
                (code.to_owned(), text.to_owned())
            }),
        }
    }
}

impl Accounts {
    /// Starts the sync of a user's account, or joins the one that runs, and waits for its end for at most 25 seconds.
    ///
    /// # Errors
    /// When no account is linked, its tokens have expired, or the plugin writes no records.
    pub async fn sync(&self, user: &AccountUser, plugin: &str) -> Result<SyncState, AccountError> {
        let linker = self.active(plugin)?;
        let db = &self.core().db;
        let row = external_accounts::get(db, user.did.as_str(), plugin).await?;
        let row = row.ok_or(AccountError::NotLinked)?;
        if !linker.exports().sync {
            return Err(AccountError::OtherKind("this plugin writes no records: it has nothing to sync"));
        }
        if row.status == AccountStatus::Expired {
            return Err(AccountError::Expired);
        }
        let session = self.session_for(&row, user).await?;
        let now = self.core().clock.now();
        let started = external_accounts::start_sync(db, &row.id, &session, now).await?;
        if started.is_some() {
            self.0.due.notify_waiters();
        }
        let joined = match started {
            Some(started) => started,
            None => external_accounts::by_id(db, &row.id).await?.ok_or(AccountError::NotLinked)?,
        };
        if let Ok(ended) = tokio::time::timeout(MAX_WAIT, self.wait_for_end(&joined)).await {
            return ended;
        }
        let row = external_accounts::by_id(db, &joined.id).await?;
        row.as_ref().map(SyncState::of).ok_or(AccountError::NotLinked)
    }

    /// The session through which the sync writes: the one that linked the account, or if it has ended, the caller's. Never one
    /// that another API client has used for an earlier sync.
    async fn session_for(&self, row: &AccountRow, user: &AccountUser) -> Result<String, AccountError> {
        if let Some(id) = &row.oauth_session_id
            && self.session_of(row, id).await?.is_some()
        {
            return Ok(id.clone());
        }
        Ok(user.session.to_string())
    }

    async fn wait_for_end(&self, joined: &AccountRow) -> Result<SyncState, AccountError> {
        loop {
            let ended = self.0.sync_ended.notified();
            let row = external_accounts::by_id(&self.core().db, &joined.id).await?;
            let row = row.filter(|row| row.status != AccountStatus::Unlinking);
            let row = row.ok_or(AccountError::NotLinked)?;
            let state = SyncState::of(&row);
            // Another run has begun since: the joined one has ended.
            if !state.is_running || row.sync_run != joined.sync_run {
                return Ok(state);
            }
            let _ = tokio::time::timeout(POLL_INTERVAL, ended).await;
        }
    }
}
