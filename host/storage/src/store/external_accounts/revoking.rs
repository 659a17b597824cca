//! Unlinks accounts, and keeps their rows until their tokens are revoked at the service.

use belvedere_base::clock::Timestamp;

use super::super::{Db, StoreError, on, only_row};
use super::{AccountRow, DELETE_VALUES, columns};

/// The user id of a deleted account's status in `dids`.
const DELETED: i64 = crate::store::index::AccountStatus::Deleted as i64;

/// Marks the rows that a condition selects. `$1`: now, `$2`: until when their tokens are revoked.
macro_rules! mark {
    ($condition:literal) => {
        concat!(
            "UPDATE external_accounts SET status = 'unlinking', attempts = 0, due_at = $1, give_up_at = $2, \
                 sync_status = 'idle', sync_holder = NULL, sync_until = NULL, updated_at = $1 \
             WHERE status <> 'unlinking' AND ",
            $condition,
            " RETURNING ",
            columns!()
        )
    };
}

/// Unlinks the account of a plugin that a user has linked, and removes what the plugin kept for it. `None` when there was
/// none.
pub async fn unlink(
    db: &Db,
    did: &str,
    plugin: &str,
    now: Timestamp,
    give_up_at: Timestamp,
) -> Result<Option<AccountRow>, StoreError> {
    let sql = mark!("did = $3 AND plugin_id = $4");
    on!(db, writer, |pool| {
        let mut tx = pool.begin().await?;
        let query = sqlx::query_as(sql).bind(now).bind(give_up_at).bind(did).bind(plugin);
        let unlinked = only_row(query.fetch_all(&mut *tx).await?);
        if unlinked.is_some() {
            sqlx::query(DELETE_VALUES).bind(plugin).bind(did).execute(&mut *tx).await?;
        }
        tx.commit().await?;
        Ok(unlinked)
    })
}

/// Unlinks accounts of a plugin, at most `max`, and removes what it kept for them. Their tokens, and those of accounts that
/// were unlinked before, are revoked until `give_up_at`. Returns the accounts.
pub async fn unlink_of_plugin(
    db: &Db,
    plugin: &str,
    now: Timestamp,
    give_up_at: Timestamp,
    max: u32,
) -> Result<Vec<AccountRow>, StoreError> {
    let sql = mark!(
        "id IN (SELECT id FROM external_accounts WHERE plugin_id = $3 AND status <> 'unlinking' LIMIT $4)"
    );
    // Also those that wait for hours: nothing of the plugin stays longer than until then.
    let sooner = "UPDATE external_accounts SET give_up_at = $2, due_at = CASE WHEN due_at > $3 THEN $3 ELSE due_at END \
                  WHERE plugin_id = $1 AND status = 'unlinking' AND give_up_at > $2";
    on!(db, writer, |pool| {
        let mut tx = pool.begin().await?;
        let query = sqlx::query_as(sql).bind(now).bind(give_up_at).bind(plugin).bind(i64::from(max));
        let unlinked: Vec<AccountRow> = query.fetch_all(&mut *tx).await?;
        for account in &unlinked {
            sqlx::query(DELETE_VALUES).bind(plugin).bind(&account.did).execute(&mut *tx).await?;
        }
        sqlx::query(sooner).bind(plugin).bind(give_up_at).bind(now).execute(&mut *tx).await?;
        tx.commit().await?;
        Ok(unlinked)
    })
}

/// Unlinks accounts of users whose own accounts were deleted on the network, at most `max`. Returns them.
pub async fn unlink_of_deleted_users(
    db: &Db,
    now: Timestamp,
    give_up_at: Timestamp,
    max: u32,
) -> Result<Vec<AccountRow>, StoreError> {
    let sql = mark!(
        "id IN (SELECT e.id FROM external_accounts e JOIN dids d ON d.did = e.did \
             WHERE d.status <> 0 AND coalesce(d.network_status, d.status) = $3 AND e.status <> 'unlinking' LIMIT $4)"
    );
    // Nearly always there is none: then the writer is not needed.
    let any = "SELECT count(*) FROM (SELECT 1 FROM external_accounts e JOIN dids d ON d.did = e.did \
                   WHERE d.status <> 0 AND coalesce(d.network_status, d.status) = $1 AND e.status <> 'unlinking' LIMIT 1) AS found";
    let found: i64 = on!(db, reader, |pool| sqlx::query_scalar(any).bind(DELETED).fetch_one(pool).await)?;
    if found == 0 {
        return Ok(Vec::new());
    }
    on!(db, writer, |pool| {
        let mut tx = pool.begin().await?;
        let query = sqlx::query_as(sql).bind(now).bind(give_up_at).bind(DELETED).bind(i64::from(max));
        let unlinked: Vec<AccountRow> = query.fetch_all(&mut *tx).await?;
        for account in &unlinked {
            let values = sqlx::query(DELETE_VALUES).bind(&account.plugin_id).bind(&account.did);
            values.execute(&mut *tx).await?;
        }
        tx.commit().await?;
        Ok(unlinked)
    })
}

/// Plugins that are not installed and have accounts.
pub async fn without_plugin(db: &Db) -> Result<Vec<String>, StoreError> {
    // Reads the index once for each plugin, not for each account.
    let sql = "WITH RECURSIVE ids (id) AS (SELECT min(plugin_id) FROM external_accounts UNION ALL \
                   SELECT (SELECT min(plugin_id) FROM external_accounts WHERE plugin_id > ids.id) FROM ids \
                   WHERE ids.id IS NOT NULL) \
               SELECT id FROM ids WHERE id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM plugins WHERE plugins.id = ids.id)";
    Ok(on!(db, reader, |pool| sqlx::query_scalar(sql).fetch_all(pool).await)?)
}

/// Revocations that are due, the longest due first: at most `max`, and at most `of_plugin` of one plugin, so that many of
/// a slow service don't delay the others. Not of accounts whose tokens are being refreshed: the new ones must be revoked.
pub async fn due_revocations(
    db: &Db,
    now: Timestamp,
    max: u32,
    of_plugin: u32,
) -> Result<Vec<AccountRow>, StoreError> {
    let sql = concat!(
        "SELECT ",
        columns!(),
        " FROM external_accounts WHERE id IN (SELECT id FROM (SELECT id, due_at, \
             row_number() OVER (PARTITION BY plugin_id ORDER BY due_at, id) AS n \
             FROM external_accounts WHERE status = 'unlinking' AND due_at <= $1 \
                 AND (refresh_until IS NULL OR refresh_until <= $1)) AS due \
             WHERE n <= $3 ORDER BY due_at, id LIMIT $2) ORDER BY due_at, id"
    );
    Ok(on!(db, reader, |pool| {
        sqlx::query_as(sql).bind(now).bind(i64::from(max)).bind(i64::from(of_plugin)).fetch_all(pool).await
    })?)
}

/// Begins an attempt, after which the row is due at `until` unless the attempt ends earlier. `false` when another host has
/// begun one.
pub async fn begin_revocation(db: &Db, row: &AccountRow, until: Timestamp) -> Result<bool, StoreError> {
    let sql = "UPDATE external_accounts SET attempts = attempts + 1, due_at = $3 \
               WHERE id = $1 AND status = 'unlinking' AND due_at = $2";
    let begun = on!(db, writer, |pool| {
        sqlx::query(sql).bind(&row.id).bind(row.due_at).bind(until).execute(pool).await?.rows_affected()
    });
    Ok(begun > 0)
}

/// Postpones a revocation whose attempt has failed, at most to its last moment, which may have come nearer meanwhile.
pub async fn postpone_revocation(db: &Db, id: &str, until: Timestamp) -> Result<(), StoreError> {
    let sql = "UPDATE external_accounts SET due_at = CASE WHEN give_up_at < $2 THEN give_up_at ELSE $2 END \
               WHERE id = $1 AND status = 'unlinking'";
    on!(db, writer, |pool| sqlx::query(sql).bind(id).bind(until).execute(pool).await.map(drop))?;
    Ok(())
}

/// Removes an account whose tokens are revoked, or could not be. Also removes what the plugin has kept for it during the
/// revocation, unless the user has linked an account again.
pub async fn remove(db: &Db, row: &AccountRow) -> Result<(), StoreError> {
    let delete = "DELETE FROM external_accounts WHERE id = $1 AND status = 'unlinking'";
    let values = "DELETE FROM plugin_values WHERE plugin_id = $1 AND scope = 'account' AND owner = $2 AND NOT EXISTS \
                  (SELECT 1 FROM external_accounts WHERE plugin_id = $1 AND did = $2 AND status <> 'unlinking')";
    on!(db, writer, |pool| {
        let mut tx = pool.begin().await?;
        sqlx::query(delete).bind(&row.id).execute(&mut *tx).await?;
        sqlx::query(values).bind(&row.plugin_id).bind(&row.did).execute(&mut *tx).await?;
        tx.commit().await?;
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use belvedere_standins::database::Database;

    use super::*;

    #[tokio::test]
    async fn users_who_were_not_deleted_need_no_writer() {
        let database = Database::sqlite();
        let db = Db::open(&database.url, 2).await.unwrap();
        db.migrate().await.unwrap();
        let Db::Sqlite(sqlite) = &db else { panic!("a SQLite file") };
        let held = sqlite.writer.acquire().await.unwrap();
        let swept = unlink_of_deleted_users(&db, Timestamp(1), Timestamp(2), 10);
        let swept =
            tokio::time::timeout(Duration::from_secs(5), swept).await.expect("no wait for the writer");
        assert!(swept.unwrap().is_empty());
        drop(held);
    }
}
