//! Stores how far syncs have come. A host takes a sync for one page: then it stores the checkpoint and releases it, so that
//! the pages of many users alternate, and another host goes on when one is killed.

use belvedere_base::clock::Timestamp;

use super::super::{Db, StoreError, on, only_row};
use super::{AccountRow, columns};

/// A sync whose next page can be read.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct DueSync {
    pub id: String,
    pub plugin_id: String,
    pub tenant: String,
}

/// The figures that a page adds to its sync.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    pub processed: i64,
    pub written: i64,
    pub skipped: i64,
    /// The reason why the first item of the page was skipped.
    pub note: Option<String>,
}

/// Starts a sync of a linked account, through `session` from then on. One that failed goes on at its checkpoint. `None`
/// when one runs already, or the account is not linked.
pub async fn start_sync(
    db: &Db,
    id: &str,
    session: &str,
    now: Timestamp,
) -> Result<Option<AccountRow>, StoreError> {
    // A cursor outlives its run only when the run failed.
    let sql = concat!(
        "UPDATE external_accounts SET sync_status = 'running', sync_run = sync_run + 1, sync_due_at = $3, \
             sync_run_started_at = $3, sync_session_id = $2, sync_reached = 0, sync_attempts = 0, sync_error = NULL, \
             updated_at = $3, \
             sync_started_at = CASE WHEN sync_cursor IS NULL THEN $3 ELSE sync_started_at END, \
             sync_pages = CASE WHEN sync_cursor IS NULL THEN 0 ELSE sync_pages END, \
             sync_processed = CASE WHEN sync_cursor IS NULL THEN 0 ELSE sync_processed END, \
             sync_written = CASE WHEN sync_cursor IS NULL THEN 0 ELSE sync_written END, \
             sync_skipped = CASE WHEN sync_cursor IS NULL THEN 0 ELSE sync_skipped END, \
             sync_note = CASE WHEN sync_cursor IS NULL THEN NULL ELSE sync_note END \
         WHERE id = $1 AND status = 'linked' AND sync_status = 'idle' RETURNING ",
        columns!()
    );
    let rows = on!(db, writer, |pool| {
        sqlx::query_as(sql).bind(id).bind(session).bind(now).fetch_all(pool).await?
    });
    Ok(only_row(rows))
}

/// Syncs that no host works on, the longest due first: at most `max`, at most `together` of one tenant and plugin, and at
/// most `of_plugin` of one plugin.
pub async fn due_syncs(
    db: &Db,
    now: Timestamp,
    max: u32,
    together: u32,
    of_plugin: u32,
) -> Result<Vec<DueSync>, StoreError> {
    let sql = "SELECT id, plugin_id, tenant FROM (SELECT id, plugin_id, tenant, sync_due_at, \
                   row_number() OVER (PARTITION BY plugin_id ORDER BY sync_due_at, id) AS of_plugin \
                   FROM (SELECT id, plugin_id, tenant, sync_due_at, \
                       row_number() OVER (PARTITION BY tenant, plugin_id ORDER BY sync_due_at, id) AS n \
                       FROM external_accounts WHERE sync_status = 'running' AND sync_due_at <= $1 \
                           AND (sync_until IS NULL OR sync_until < $1)) AS due \
                   WHERE n <= $3) AS shared \
               WHERE of_plugin <= $4 ORDER BY sync_due_at, id LIMIT $2";
    Ok(on!(db, reader, |pool| {
        let query = sqlx::query_as(sql).bind(now).bind(i64::from(max)).bind(i64::from(together));
        query.bind(i64::from(of_plugin)).fetch_all(pool).await
    })?)
}

/// Takes a sync for its next page, until `until`, and counts the attempt: a page that kills the server is not read for ever.
/// `None` when another host has it or it has ended.
pub async fn take_sync(
    db: &Db,
    id: &str,
    holder: &str,
    now: Timestamp,
    until: Timestamp,
) -> Result<Option<AccountRow>, StoreError> {
    let sql = concat!(
        "UPDATE external_accounts SET sync_holder = $2, sync_until = $4, sync_attempts = sync_attempts + 1 \
         WHERE id = $1 AND sync_status = 'running' AND (sync_until IS NULL OR sync_until < $3) RETURNING ",
        columns!()
    );
    let rows = on!(db, writer, |pool| {
        sqlx::query_as(sql).bind(id).bind(holder).bind(now).bind(until).fetch_all(pool).await?
    });
    Ok(only_row(rows))
}

/// Keeps a sync that was taken. `false` when another host has it by now, or the account was unlinked.
pub async fn extend_sync(db: &Db, id: &str, holder: &str, until: Timestamp) -> Result<bool, StoreError> {
    let sql = "UPDATE external_accounts SET sync_until = $3 WHERE id = $1 AND sync_holder = $2";
    let kept = on!(db, writer, |pool| {
        sqlx::query(sql).bind(id).bind(holder).bind(until).execute(pool).await?.rows_affected()
    });
    Ok(kept > 0)
}

/// Stores that a page is written and which comes next, and releases the sync. `false` as for [`extend_sync`].
pub async fn checkpoint(
    db: &Db,
    id: &str,
    holder: &str,
    next: &str,
    page: &Progress,
    now: Timestamp,
) -> Result<bool, StoreError> {
    let sql = "UPDATE external_accounts SET sync_cursor = $3, sync_reached = 0, sync_pages = sync_pages + 1, \
                   sync_processed = sync_processed + $4, sync_written = sync_written + $5, \
                   sync_skipped = sync_skipped + $6, sync_note = coalesce(sync_note, $7), sync_attempts = 0, \
                   sync_error = NULL, sync_due_at = $8, sync_holder = NULL, sync_until = NULL, updated_at = $8 \
               WHERE id = $1 AND sync_holder = $2";
    let stored = on!(db, writer, |pool| {
        let query = sqlx::query(sql).bind(id).bind(holder).bind(next).bind(page.processed).bind(page.written);
        let query = query.bind(page.skipped).bind(&page.note).bind(now);
        query.execute(pool).await?.rows_affected()
    });
    Ok(stored > 0)
}

/// Stores that a turn has ended before its page: `reached` items are written, with what `part` says. Releases the sync, which
/// is due after those that wait. The next attempt is the first one if this one has come further than the last. `false` as for
/// [`extend_sync`].
pub async fn interrupt_sync(
    db: &Db,
    id: &str,
    holder: &str,
    part: &Progress,
    reached: i64,
    now: Timestamp,
) -> Result<bool, StoreError> {
    let sql = "UPDATE external_accounts SET \
                   sync_attempts = CASE WHEN $3 > sync_reached THEN 0 ELSE sync_attempts END, \
                   sync_reached = CASE WHEN $3 > sync_reached THEN $3 ELSE sync_reached END, \
                   sync_written = sync_written + $4, sync_note = coalesce(sync_note, $5), sync_error = NULL, \
                   sync_due_at = $6, sync_holder = NULL, sync_until = NULL, updated_at = $6 \
               WHERE id = $1 AND sync_holder = $2";
    let stored = on!(db, writer, |pool| {
        let query = sqlx::query(sql).bind(id).bind(holder).bind(reached).bind(part.written).bind(&part.note);
        query.bind(now).execute(pool).await?.rows_affected()
    });
    Ok(stored > 0)
}

/// Stores that the last page is written. `None` as `false` of [`extend_sync`].
pub async fn finish_sync(
    db: &Db,
    id: &str,
    holder: &str,
    page: &Progress,
    now: Timestamp,
) -> Result<Option<AccountRow>, StoreError> {
    let sql = concat!(
        "UPDATE external_accounts SET sync_status = 'idle', sync_cursor = NULL, sync_reached = 0, sync_pages = sync_pages + 1, \
             sync_processed = sync_processed + $3, sync_written = sync_written + $4, sync_skipped = sync_skipped + $5, \
             sync_note = coalesce(sync_note, $6), sync_attempts = 0, sync_error = NULL, synced_at = $7, \
             sync_holder = NULL, sync_until = NULL, updated_at = $7 WHERE id = $1 AND sync_holder = $2 RETURNING ",
        columns!()
    );
    let rows = on!(db, writer, |pool| {
        let query = sqlx::query_as(sql).bind(id).bind(holder).bind(page.processed).bind(page.written);
        query.bind(page.skipped).bind(&page.note).bind(now).fetch_all(pool).await?
    });
    Ok(only_row(rows))
}

/// Stores that the page is to be read again at `due_at`, and releases the sync. `counts`: whether the attempt counts as
/// one. `false` as for [`extend_sync`].
pub async fn postpone_sync(
    db: &Db,
    id: &str,
    holder: &str,
    due_at: Timestamp,
    error: &str,
    counts: bool,
) -> Result<bool, StoreError> {
    let sql = "UPDATE external_accounts SET sync_due_at = $3, sync_error = $4, sync_attempts = sync_attempts - $5, \
                   sync_holder = NULL, sync_until = NULL WHERE id = $1 AND sync_holder = $2";
    let stored = on!(db, writer, |pool| {
        let query = sqlx::query(sql).bind(id).bind(holder).bind(due_at).bind(error).bind(i64::from(!counts));
        query.execute(pool).await?.rows_affected()
    });
    Ok(stored > 0)
}

/// Ends a sync with an error. With `keeps`, the next one goes on at the checkpoint. `None` as `false` of [`extend_sync`].
pub async fn fail_sync(
    db: &Db,
    id: &str,
    holder: &str,
    error: &str,
    keeps: bool,
    now: Timestamp,
) -> Result<Option<AccountRow>, StoreError> {
    let sql = concat!(
        "UPDATE external_accounts SET sync_status = 'idle', sync_error = $3, \
             sync_cursor = CASE WHEN $4 THEN sync_cursor END, sync_holder = NULL, sync_until = NULL, updated_at = $5 \
         WHERE id = $1 AND sync_holder = $2 RETURNING ",
        columns!()
    );
    let rows = on!(db, writer, |pool| {
        let query = sqlx::query_as(sql).bind(id).bind(holder).bind(error).bind(keeps).bind(now);
        query.fetch_all(pool).await?
    });
    Ok(only_row(rows))
}

/// Releases a sync that this host can't go on with, so that another one does at once. The attempt does not count.
pub async fn release_sync(db: &Db, id: &str, holder: &str) -> Result<(), StoreError> {
    let sql = "UPDATE external_accounts SET sync_holder = NULL, sync_until = NULL, sync_attempts = sync_attempts - 1 \
               WHERE id = $1 AND sync_holder = $2";
    on!(db, writer, |pool| sqlx::query(sql).bind(id).bind(holder).execute(pool).await.map(drop))?;
    Ok(())
}
