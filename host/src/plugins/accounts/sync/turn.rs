//! One turn of a sync: reads a page, writes its records, stores the checkpoint.

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;

use super::super::super::calls::{CallError, Fault, FaultCode, Page};
use super::super::super::registry::PluginStatus;
use super::super::tokens::Opened;
use super::super::{AccountError, Accounts, Linker, check, scope_of, tenant_of};
use super::items::{self, PreparedItem};
use super::worker::LEASE_SECONDS;
use crate::events::ExternalAccountChange;
use crate::pds::{PdsError, Session, SessionSelector, Write, WriteAction};
use crate::repos::RecordScripts;
use crate::store::StoreError;
use crate::store::external_accounts::{self, AccountRow, AccountStatus, Progress};

/// Items of one page. A page is in memory whole, and is read again after a crash.
pub(super) const MAX_ITEMS: usize = 1_000;

/// Pages of one sync: with [`MAX_ITEMS`], ten million items. A plugin that never ends is stopped there.
const MAX_PAGES: i64 = 10_000;

/// Longest cursor in bytes.
const MAX_CURSOR: usize = 8 * 1024;

/// How often the lease is extended during a turn: four times in its time.
const EXTEND_EVERY: Duration = Duration::from_secs(5);

/// Failed attempts of one page before the sync fails. With the pauses between them they take 17 minutes, which is longer
/// than a restart of a PDS.
const MAX_ATTEMPTS: i64 = 10;

/// Most seconds between two attempts; the first pause is a second, each further one twice as long.
const MAX_PAUSE_SECONDS: i64 = 600;

/// The pause after a PDS or a service that limits our rate does not say for how long, in seconds.
const LIMITED_SECONDS: i64 = 30;

/// The longest time for which a sync waits on request, in seconds: the windows of rate limits are an hour or a day.
const MAX_LIMITED_SECONDS: i64 = 3_600;

/// How long a sync may take, in seconds. One that waits for a rate limit again and again ends.
const MAX_SYNC_SECONDS: i64 = 2 * 86_400;

/// Bytes of records that are compared with the index at once.
const COMPARED_BYTES: usize = 16 * 1024 * 1024;

/// Records that are compared with the index at once.
const COMPARED: usize = 100;

/// Why a turn did not complete its page.
#[derive(Debug)]
pub(in crate::plugins::accounts) enum Stop {
    /// The page is read again after some time.
    Retry {
        code: &'static str,
        text: String,
        /// The other side named the time, in seconds. Such attempts don't count as failed.
        after: Option<i64>,
    },
    /// The sync ends. With `keeps`, the next one goes on at the checkpoint.
    Fail { code: &'static str, text: String, keeps: bool },
}

impl Stop {
    fn retry(code: &'static str, text: impl ToString) -> Self {
        Self::Retry { code, text: text.to_string(), after: None }
    }

    /// For what the user or the operator can repair.
    fn pause(code: &'static str, text: impl ToString) -> Self {
        Self::Fail { code, text: text.to_string(), keeps: true }
    }

    /// For an error of the plugin that would come again at the checkpoint.
    pub(super) fn fail(code: &'static str, text: impl ToString) -> Self {
        Self::Fail { code, text: text.to_string(), keeps: false }
    }
}

impl From<StoreError> for Stop {
    fn from(error: StoreError) -> Self {
        tracing::warn!(%error, "a page of a sync could not be written");
        Self::retry("internal", "the database failed")
    }
}

/// A page that was written.
struct Written {
    progress: Progress,
    next: Option<String>,
}

/// Runs a turn of a sync that was taken by `holder`.
pub(in crate::plugins::accounts) async fn run(accounts: &Accounts, row: AccountRow, holder: &str) {
    let (db, id) = (&accounts.deps().db, row.id.clone());
    let ended = tokio::select! {
        page = page(accounts, row.clone()) => store(accounts, &row, holder, page).await,
        kept = keep(accounts, &id, holder) => kept,
        // Another host goes on at the checkpoint.
        () = accounts.deps().drain.cancelled() => external_accounts::release_sync(db, &id, holder).await,
    };
    if let Err(error) = ended {
        tracing::warn!(id, %error, "the state of a sync could not be stored; it goes on at its checkpoint");
    }
}

/// Keeps the sync. Returns when another host has it or the account was unlinked.
async fn keep(accounts: &Accounts, id: &str, holder: &str) -> Result<(), StoreError> {
    loop {
        let unlinked = accounts.0.unlinked.notified();
        let _ = tokio::time::timeout(EXTEND_EVERY, unlinked).await;
        let until = accounts.deps().clock.now().plus_seconds(LEASE_SECONDS);
        if !external_accounts::extend_sync(&accounts.deps().db, id, holder, until).await? {
            tracing::info!(
                id,
                "a sync was stopped: its account was unlinked, or another host goes on with it"
            );
            return Ok(());
        }
    }
}

/// Stores the end of a turn.
async fn store(
    accounts: &Accounts,
    row: &AccountRow,
    holder: &str,
    page: Result<Written, Stop>,
) -> Result<(), StoreError> {
    let (db, now) = (&accounts.deps().db, accounts.deps().clock.now());
    let (id, account) = (&row.id, row.account_id.clone());
    let stop = match page {
        Ok(Written { progress, next: Some(next) }) => {
            external_accounts::checkpoint(db, id, holder, &next, &progress, now).await?;
            return Ok(());
        }
        Ok(Written { progress, next: None }) => {
            if let Some(row) = external_accounts::finish_sync(db, id, holder, &progress, now).await? {
                let AccountRow { sync_processed, sync_written, sync_skipped, sync_note, .. } = row;
                let change = ExternalAccountChange::Synced {
                    account,
                    processed: sync_processed,
                    written: sync_written,
                    skipped: sync_skipped,
                    note: sync_note,
                };
                accounts.record(&row.did, &row.plugin_id, change);
            }
            return Ok(());
        }
        Err(stop) => stop,
    };
    let (code, text, keeps) = match stop {
        Stop::Retry { code, text, after } => {
            let pause = after
                .map_or_else(|| pause_seconds(row.sync_attempts), |wait| wait.clamp(1, MAX_LIMITED_SECONDS));
            let due_at = now.plus_seconds(pause);
            let attempts = row.sync_attempts + i64::from(after.is_none());
            let ends = row.sync_started_at.is_some_and(|at| due_at > at.plus_seconds(MAX_SYNC_SECONDS));
            if attempts < MAX_ATTEMPTS && !ends {
                tracing::info!(id, code, text, pause, "a page of a sync is tried again");
                let error = format!("{code}: {text}");
                external_accounts::postpone_sync(db, id, holder, due_at, &error, after.is_none()).await?;
                return Ok(());
            }
            (code, text, true)
        }
        Stop::Fail { code, text, keeps } => (code, text, keeps),
    };
    let error = format!("{code}: {text}");
    if let Some(row) = external_accounts::fail_sync(db, id, holder, &error, keeps, now).await? {
        let AccountRow { sync_processed, sync_written, .. } = row;
        let change = ExternalAccountChange::SyncFailed {
            account,
            error,
            processed: sync_processed,
            written: sync_written,
        };
        accounts.record(&row.did, &row.plugin_id, change);
    }
    Ok(())
}

/// The pause before the next attempt, after `attempts` failed ones before the last.
fn pause_seconds(attempts: i64) -> i64 {
    let power = u32::try_from(attempts).unwrap_or(u32::MAX);
    2_i64.saturating_pow(power).min(MAX_PAUSE_SECONDS)
}

/// Reads a page and writes its records.
async fn page(accounts: &Accounts, row: AccountRow) -> Result<Written, Stop> {
    let plugin = accounts.deps().linkers.get(&row.plugin_id);
    let plugin = plugin.ok_or_else(|| Stop::pause("not-found", "the plugin is not installed any more"))?;
    match plugin.status() {
        PluginStatus::Active => {}
        PluginStatus::Paused => {
            return Err(Stop::pause("internal", "the plugin is paused: its operator can resume it"));
        }
        PluginStatus::Removing => return Err(Stop::pause("not-found", "the plugin is being removed")),
    }
    if row.status != AccountStatus::Linked {
        return Err(Stop::pause("needs-reauth", AccountError::Expired));
    }
    let session_id = row.oauth_session_id.clone().unwrap_or_default();
    let session = accounts.session_of(&row, &session_id).await?.ok_or_else(no_session)?;
    let opened = accounts.usable(&plugin, row).await.map_err(account_stop)?;
    let (row, page) = pull(accounts, &plugin, opened).await?;
    check_page(&row, &page)?;
    let Page { items, next } = page;
    let (mut progress, prepared) = items::prepare(accounts, plugin.as_ref(), &row, items).await?;
    for chunk in prepared.chunks(COMPARED) {
        write_changed(accounts, &row, &session, chunk, &mut progress).await?;
    }
    Ok(Written { progress, next })
}

/// Calls the plugin. When the service no longer accepts the access token, they are refreshed once.
async fn pull(
    accounts: &Accounts,
    plugin: &Arc<dyn Linker>,
    opened: Opened,
) -> Result<(AccountRow, Page), Stop> {
    let Opened { row, tokens, config } = opened;
    let scope = scope_of(&row);
    let read = plugin.pull(&scope, &tokens, &config, row.sync_cursor.as_deref()).await;
    let is_refused = |read: &Result<Page, CallError>| {
        matches!(read, Err(CallError::Fault(Fault { code: FaultCode::NeedsReauth, .. })))
    };
    if !is_refused(&read) {
        return Ok((row, read.map_err(call_stop)?));
    }
    if row.refresh_token.is_none() {
        accounts.expire(&row).await.map_err(account_stop)?;
        return Err(Stop::pause("needs-reauth", AccountError::Expired));
    }
    let Opened { row: renewed, tokens, config } =
        accounts.renewed(plugin, &row).await.map_err(account_stop)?;
    // The checkpoint is that of the row that this turn began with.
    let again = plugin.pull(&scope, &tokens, &config, row.sync_cursor.as_deref()).await;
    if is_refused(&again) {
        accounts.expire(&renewed).await.map_err(account_stop)?;
        return Err(Stop::pause("needs-reauth", AccountError::Expired));
    }
    Ok((row, again.map_err(call_stop)?))
}

fn check_page(row: &AccountRow, page: &Page) -> Result<(), Stop> {
    if page.items.len() > MAX_ITEMS {
        let text =
            format!("the plugin's page has {} items; at most {MAX_ITEMS} are allowed", page.items.len());
        return Err(Stop::fail("too-large", text));
    }
    let Some(next) = &page.next else { return Ok(()) };
    if next.len() > MAX_CURSOR || next.contains('\0') {
        let text = format!("the plugin's cursor is longer than {MAX_CURSOR} bytes or holds a NUL character");
        return Err(Stop::fail("bad-input", text));
    }
    if row.sync_cursor.as_ref() == Some(next) {
        return Err(Stop::fail("bad-input", "the plugin returned the same cursor twice: it would never end"));
    }
    if row.sync_pages + 1 >= MAX_PAGES {
        return Err(Stop::fail("too-large", format!("the plugin's sync has more than {MAX_PAGES} pages")));
    }
    Ok(())
}

/// Writes those records of a chunk that are not in the index as they are to be.
async fn write_changed(
    accounts: &Accounts,
    row: &AccountRow,
    session: &Session,
    chunk: &[PreparedItem],
    progress: &mut Progress,
) -> Result<(), Stop> {
    let repos = &accounts.deps().repos;
    let uris: Vec<_> = chunk.iter().map(|item| item.uri.clone()).collect();
    let known = repos.load(&uris, COMPARED_BYTES).await?.rows;
    let is_unchanged = |item: &PreparedItem| {
        let uri = item.uri.to_string();
        known.iter().any(|row| row.cid == Some(item.cid) && row.row.uri() == uri)
    };
    let tenant = tenant_of(&row.tenant);
    let agent = repos.agent(session, &tenant);
    for item in chunk {
        progress.processed += 1;
        if is_unchanged(item) {
            continue;
        }
        let write = Write {
            collection: item.uri.collection.clone(),
            rkey: Some(item.uri.rkey.clone()),
            action: WriteAction::Put(item.record.clone()),
            swap: None,
        };
        match agent.write(&write).await {
            Ok(committed) => {
                let writes = std::slice::from_ref(&write);
                repos.mirror_writes(&session.did, writes, committed, RecordScripts::Now).await;
                progress.written += 1;
            }
            Err(error) => {
                let note = pds_stop(error)?;
                progress.skipped += 1;
                progress.note.get_or_insert(format!("{}: {note}", item.uri));
            }
        }
    }
    Ok(())
}

/// What a failed write means for the sync. A record that the PDS finds invalid is skipped, for the returned reason.
fn pds_stop(error: PdsError) -> Result<String, Stop> {
    let text = check::shown(&error.to_string());
    let refusal = match error {
        PdsError::Refused(refusal) => refusal,
        PdsError::Ended => return Err(no_session()),
        PdsError::Credential => return Err(Stop::pause("internal", text)),
        PdsError::Net(_) | PdsError::Busy(_) | PdsError::Malformed(_) | PdsError::Renewal(_) => {
            return Err(Stop::retry("upstream", text));
        }
    };
    match refusal.status {
        StatusCode::TOO_MANY_REQUESTS => {
            let wait = refusal.retry_after.and_then(|time| i64::try_from(time.as_secs()).ok());
            let after = Some(wait.unwrap_or(LIMITED_SECONDS));
            Err(Stop::Retry { code: "rate-limited", text, after })
        }
        status if status.is_server_error() => Err(Stop::retry("upstream", text)),
        StatusCode::UNAUTHORIZED => Err(no_session()),
        StatusCode::FORBIDDEN => Err(Stop::pause("out-of-scope", text)),
        _ if matches!(refusal.code().as_str(), "InvalidRequest" | "InvalidRecord" | "") => Ok(text),
        _ => Err(Stop::pause("upstream", text)),
    }
}

fn no_session() -> Stop {
    let text = "the session that links to the user's PDS has ended: sync again with a current session";
    Stop::pause("no-session", text)
}

/// What a failed refresh of the tokens means for the sync.
fn account_stop(error: AccountError) -> Stop {
    match error {
        AccountError::Call(error) => call_stop(error),
        AccountError::Store(error) => error.into(),
        AccountError::Expired | AccountError::NotLinked => Stop::pause("needs-reauth", AccountError::Expired),
        AccountError::Sealed(error) => {
            tracing::error!(%error, "the tokens of an external account can't be opened");
            Stop::pause("internal", "the account's tokens can't be opened: link the account again")
        }
        error => Stop::retry("upstream", error.public_text()),
    }
}

/// What a failed call of the plugin means for the sync.
fn call_stop(error: CallError) -> Stop {
    let fault = match error {
        CallError::Fault(fault) => fault,
        // No attempt was made.
        CallError::Busy => {
            return Stop::Retry { code: "rate-limited", text: CallError::Busy.to_string(), after: Some(1) };
        }
        CallError::Failed(cause) => {
            tracing::warn!(cause, "a page of a sync failed");
            return Stop::retry("internal", "the plugin failed");
        }
        CallError::Paused => {
            return Stop::pause("internal", "the plugin is paused: its operator can resume it");
        }
        CallError::Unsupported(what) => {
            return Stop::fail("unsupported", format!("the plugin has no {what}"));
        }
    };
    let text = check::shown(&fault.message);
    match fault.code {
        FaultCode::RateLimited => {
            let wait = fault.retry_after_ms.map(|ms| i64::try_from(ms / 1_000).unwrap_or(i64::MAX));
            Stop::Retry { code: "rate-limited", text, after: Some(wait.unwrap_or(LIMITED_SECONDS)) }
        }
        FaultCode::Upstream | FaultCode::TimedOut => Stop::retry("upstream", text),
        FaultCode::NeedsReauth | FaultCode::AuthRequired => Stop::pause("needs-reauth", text),
        FaultCode::Forbidden => Stop::pause("forbidden", text),
        FaultCode::OutOfScope => Stop::pause("out-of-scope", text),
        FaultCode::Quota => Stop::pause("quota", text),
        FaultCode::TooLarge => Stop::fail("too-large", text),
        _ => Stop::fail("upstream", text),
    }
}

impl Accounts {
    /// A session of the account's user by its id; `None` when it has ended.
    pub(in crate::plugins::accounts) async fn session_of(
        &self,
        row: &AccountRow,
        id: &str,
    ) -> Result<Option<Arc<Session>>, StoreError> {
        let session = self.deps().repos.session(SessionSelector::Id(id)).await?;
        Ok(session.filter(|session| session.did.as_str() == row.did))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_attempts_of_a_page_take_long_enough_for_a_restart() {
        assert_eq!([0, 1, 2, 9, 10, 1_000].map(pause_seconds), [1, 2, 4, 512, 600, 600]);
        assert_eq!((0..MAX_ATTEMPTS).map(pause_seconds).sum::<i64>(), 1_023);
    }
}
