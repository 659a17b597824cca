//! One turn of a sync: reads a page, writes its records, stores the checkpoint.

use std::sync::Arc;
use std::time::Duration;

use super::super::super::calls::{CallError, Fault, FaultCode, Page};
use super::super::super::registry::PluginStatus;
use super::super::tokens::Opened;
use super::super::{AccountError, Accounts, Linker, scope_of, tenant_of};
use super::items::{self, MAX_ITEMS, PreparedItem};
use super::stop::{Stop, account_stop, call_stop, no_session, pds_stop};
use crate::plugins::limits;
use belvedere_base::clock::Timestamp;
use belvedere_instance::events::Event;
use belvedere_instance::pds::{Session, SessionSelector, Write, WriteAction};
use belvedere_instance::repos::RecordScripts;
use belvedere_storage::store::StoreError;
use belvedere_storage::store::external_accounts::{self, AccountRow, AccountStatus, Progress};

/// Pages of one sync: with [`MAX_ITEMS`], ten million items. A plugin that never ends is stopped there.
const MAX_PAGES: i64 = 10_000;

/// Longest cursor in bytes.
const MAX_CURSOR: usize = limits::CURSOR_BYTES;

/// Time for which a host has a sync without extending that, in seconds. A killed host's sync goes on elsewhere after
/// this time.
pub(super) const LEASE_SECONDS: i64 = 20;

/// Interval at which the lease is extended during a turn: four times in its time.
const EXTEND_EVERY: Duration = Duration::from_secs(5);

/// Maximum time of a turn, in seconds. A page with many records and a slow PDS goes on in a later turn, after those of
/// other accounts.
pub(in crate::plugins::accounts) const TURN_SECONDS: i64 = 90;

/// Attempts of one page before the sync fails. With the pauses between them they take 17 minutes, which is longer
/// than a restart of a PDS.
const MAX_ATTEMPTS: i64 = 10;

/// Most seconds between two attempts; the first pause is a second, each further one twice as long.
const MAX_PAUSE_SECONDS: i64 = 600;

/// The longest time for which a sync waits on request, in seconds: the windows of rate limits are an hour or a day.
const MAX_LIMITED_SECONDS: i64 = 3_600;

/// Maximum time of a sync, in seconds. One that waits for a rate limit again and again ends.
const MAX_SYNC_SECONDS: i64 = 2 * 86_400;

/// Bytes of records that are compared with the index at once.
const COMPARED_BYTES: usize = 16 * 1024 * 1024;

/// Records that are compared with the index at once.
const COMPARED: usize = 100;

/// The result of a turn's writes.
enum Written {
    /// A page.
    Page { progress: Progress, next: Option<String> },
    /// The first `reached` items of a page: the turn's time is over.
    Part { progress: Progress, reached: i64 },
}

impl Written {
    fn map_note(mut self, map: impl FnOnce(String) -> String) -> Self {
        let (Self::Page { progress, .. } | Self::Part { progress, .. }) = &mut self;
        progress.note = progress.note.take().map(map);
        self
    }
}

/// Runs a turn of a sync that was taken by `holder`.
pub(in crate::plugins::accounts) async fn run(accounts: &Accounts, row: AccountRow, holder: &str) {
    let (db, id) = (&accounts.core().db, row.id.clone());
    let ended = tokio::select! {
        page = page(accounts, row.clone()) => store(accounts, &row, holder, page).await,
        kept = keep(accounts, &id, holder) => kept,
        // Another host goes on at the checkpoint.
        () = accounts.core().drain.cancelled() => external_accounts::release_sync(db, &id, holder).await,
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
        let until = accounts.core().clock.now().plus_seconds(LEASE_SECONDS);
        if !external_accounts::extend_sync(&accounts.core().db, id, holder, until).await? {
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
    let (db, now) = (&accounts.core().db, accounts.core().clock.now());
    let (id, account) = (&row.id, row.account_id.clone());
    let stop = match page {
        Ok(Written::Page { progress, next: Some(next) }) => {
            external_accounts::checkpoint(db, id, holder, &next, &progress, now).await?;
            return Ok(());
        }
        Ok(Written::Page { progress, next: None }) => {
            if let Some(row) = external_accounts::finish_sync(db, id, holder, &progress, now).await? {
                accounts.core().events.record(Event::ExternalAccountSynced {
                    did: row.did,
                    plugin: row.plugin_id,
                    account,
                    processed: row.sync_processed,
                    written: row.sync_written,
                    skipped: row.sync_skipped,
                    note: row.sync_note,
                });
                accounts.0.sync_ended.notify_waiters();
            }
            return Ok(());
        }
        Ok(Written::Part { progress, reached }) => {
            if reached > row.sync_reached || row.sync_attempts < MAX_ATTEMPTS {
                external_accounts::interrupt_sync(db, id, holder, &progress, reached, now).await?;
                return Ok(());
            }
            Stop::pause(
                "timed-out",
                "a page of the sync makes no progress: the service or the PDS is too slow",
            )
        }
        Err(stop) => stop,
    };
    let (code, text, keeps) = match stop {
        Stop::Retry { code, text, after } => {
            let pause = after.map_or_else(
                || pause_seconds(row.sync_attempts - 1),
                |wait| wait.clamp(1, MAX_LIMITED_SECONDS),
            );
            let due_at = now.plus_seconds(pause);
            let is_last = after.is_none() && row.sync_attempts >= MAX_ATTEMPTS;
            let ends = row.sync_run_started_at.is_some_and(|at| due_at > at.plus_seconds(MAX_SYNC_SECONDS));
            if !is_last && !ends {
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
        accounts.core().events.record(Event::ExternalAccountSyncFailed {
            did: row.did,
            plugin: row.plugin_id,
            account,
            error,
            processed: row.sync_processed,
            written: row.sync_written,
        });
        accounts.0.sync_ended.notify_waiters();
    }
    Ok(())
}

/// The pause before the next attempt, after `attempts` ones before the last.
fn pause_seconds(attempts: i64) -> i64 {
    let power = u32::try_from(attempts).unwrap_or(u32::MAX);
    2_i64.saturating_pow(power).min(MAX_PAUSE_SECONDS)
}

/// Reads a page and writes its records.
async fn page(accounts: &Accounts, row: AccountRow) -> Result<Written, Stop> {
    let began = accounts.core().clock.now();
    if row.sync_attempts > MAX_ATTEMPTS {
        let text = "the server has ended in the middle of each attempt to read a page";
        return Err(Stop::pause("internal", text));
    }
    let plugin = accounts.0.linkers.get(&row.plugin_id);
    let plugin = plugin.ok_or_else(|| Stop::pause("not-found", "the plugin is not installed any more"))?;
    match plugin.status() {
        PluginStatus::Active => {}
        PluginStatus::Paused => return Err(Stop::paused()),
        PluginStatus::Removing => return Err(Stop::pause("not-found", "the plugin is being removed")),
    }
    if row.status != AccountStatus::Linked {
        return Err(Stop::pause("needs-reauth", AccountError::Expired));
    }
    // The texts name collections and keys that the plugin chose.
    let hide = |text: String| plugin.hide_secrets(&text);
    let written = read_and_write(accounts, &plugin, row, began).await.map_err(|stop| stop.map_text(hide))?;
    Ok(written.map_note(hide))
}

async fn read_and_write(
    accounts: &Accounts,
    plugin: &Arc<dyn Linker>,
    row: AccountRow,
    began: Timestamp,
) -> Result<Written, Stop> {
    let session_id = row.sync_session_id.clone().unwrap_or_default();
    let session = accounts.session_of(&row, &session_id).await?.ok_or_else(no_session)?;
    let opened = accounts.usable(plugin, row).await.map_err(account_stop)?;
    let (row, page) = pull(accounts, plugin, opened).await?;
    check_page(&row, &page)?;
    let Page { items, next } = page;
    let (mut progress, prepared) = items::prepare(accounts, plugin.as_ref(), &row, items).await?;
    let over = began.plus_seconds(TURN_SECONDS);
    let writing = Writing { accounts, plugin: plugin.as_ref(), row: &row, session: &session, over };
    let mut reached = 0;
    for chunk in prepared.chunks(COMPARED) {
        if !writing.write_changed(chunk, &mut reached, &mut progress).await?
            && reached < prepared.len() as i64
        {
            return Ok(Written::Part { progress, reached });
        }
    }
    Ok(Written::Page { progress, next })
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

/// The writes of a turn.
struct Writing<'a> {
    accounts: &'a Accounts,
    plugin: &'a dyn Linker,
    row: &'a AccountRow,
    session: &'a Session,
    /// The time at which the turn is over.
    over: Timestamp,
}

impl Writing<'_> {
    /// Writes those records of a chunk that are not in the index as they are to be, and counts in `reached` how many items of
    /// the page are done. `false` when the turn's time is over: then it has stopped after the current item.
    async fn write_changed(
        &self,
        chunk: &[PreparedItem],
        reached: &mut i64,
        progress: &mut Progress,
    ) -> Result<bool, Stop> {
        let repos = &self.accounts.0.repos;
        let uris: Vec<_> = chunk.iter().map(|item| item.uri.clone()).collect();
        let known = repos.load(&uris, COMPARED_BYTES).await?.rows;
        let is_unchanged = |item: &PreparedItem| {
            let uri = item.uri.to_string();
            known.iter().any(|row| row.row.cid == Some(item.cid) && row.row.uri() == uri)
        };
        for item in chunk {
            progress.processed += 1;
            let is_done = is_unchanged(item) || (*reached < self.row.sync_reached && !self.is_indexed(item));
            if !is_done {
                self.write(item, progress).await?;
            }
            *reached += 1;
            if !is_done && self.accounts.core().clock.now() >= self.over {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether the index holds records of the item's collection. For others, their place in the page says whether an
    /// earlier turn has written them.
    fn is_indexed(&self, item: &PreparedItem) -> bool {
        self.accounts.core().registry.snapshot().record_schema(item.uri.collection.as_str()).is_some()
    }

    async fn write(&self, item: &PreparedItem, progress: &mut Progress) -> Result<(), Stop> {
        let repos = &self.accounts.0.repos;
        let tenant = tenant_of(&self.row.tenant);
        let write = Write {
            collection: item.uri.collection.clone(),
            rkey: Some(item.uri.rkey.clone()),
            action: WriteAction::Put(item.record.clone()),
            swap: None,
        };
        match repos.agent(self.session, &tenant).write(&write).await {
            Ok(committed) => {
                let writes = std::slice::from_ref(&write);
                repos.mirror_writes(&self.session.did, writes, committed, RecordScripts::Now).await;
                progress.written += 1;
            }
            Err(error) => {
                let note = pds_stop(self.plugin, error)?;
                progress.skipped += 1;
                progress.note.get_or_insert(format!("{}: {note}", item.uri));
            }
        }
        Ok(())
    }
}

impl Accounts {
    /// A session of the account's user by its id; `None` when it has ended.
    pub(in crate::plugins::accounts) async fn session_of(
        &self,
        row: &AccountRow,
        id: &str,
    ) -> Result<Option<Arc<Session>>, StoreError> {
        let session = self.0.repos.session(SessionSelector::Id(id)).await?;
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
