//! Stores the services in the instance's DID document, and the methods that each of them grants.

use schemars::JsonSchema;
use serde::Serialize;

use belvedere_base::clock::Timestamp;

use super::{Db, StoreError, on, only_row};

#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow, Serialize, JsonSchema)]
#[schemars(rename = "ServiceEntry")]
pub struct EntryRow {
    pub id: i64,
    /// `#` and a name.
    pub fragment_id: String,
    pub service_type: String,
    /// `all`, `allowlist` or `disabled`.
    pub access_mode: String,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// The columns to change; `None` keeps the value.
#[derive(Clone, Copy, Debug, Default)]
pub struct EntryChange<'a> {
    pub fragment_id: Option<&'a str>,
    pub service_type: Option<&'a str>,
    pub access_mode: Option<&'a str>,
}

/// All entries, oldest first.
pub async fn list(db: &Db) -> Result<Vec<EntryRow>, StoreError> {
    let sql = "SELECT id, fragment_id, service_type, access_mode, created_at, updated_at FROM service_entries \
               ORDER BY id";
    Ok(on!(db, reader, |pool| sqlx::query_as(sql).fetch_all(pool).await)?)
}

/// The methods of all entries: pairs of entry and NSID.
pub async fn all_xrpcs(db: &Db) -> Result<Vec<(i64, String)>, StoreError> {
    let sql = "SELECT entry_id, nsid FROM service_entry_xrpcs";
    Ok(on!(db, reader, |pool| sqlx::query_as(sql).fetch_all(pool).await)?)
}

/// Adds an entry that grants every method; `None` when there are `max` already. [`StoreError::Conflict`] when the
/// fragment exists.
pub async fn create(
    db: &Db,
    (fragment_id, service_type): (&str, &str),
    max: i64,
    now: Timestamp,
) -> Result<Option<EntryRow>, StoreError> {
    let sql = "INSERT INTO service_entries (fragment_id, service_type, access_mode, created_at, updated_at) \
               SELECT $1, $2, 'all', $3, $3 WHERE (SELECT count(*) FROM service_entries) < $4 \
               RETURNING id, fragment_id, service_type, access_mode, created_at, updated_at";
    let rows = on!(db, writer, |pool| {
        let query = sqlx::query_as(sql).bind(fragment_id).bind(service_type).bind(now).bind(max);
        query.fetch_all(pool).await
    })?;
    Ok(only_row(rows))
}

/// Changes an entry; `false` when there is none with this id. [`StoreError::Conflict`] when the fragment exists.
pub async fn update(db: &Db, id: i64, change: EntryChange<'_>, now: Timestamp) -> Result<bool, StoreError> {
    let sql = "UPDATE service_entries SET fragment_id = COALESCE($2, fragment_id), \
                   service_type = COALESCE($3, service_type), access_mode = COALESCE($4, access_mode), \
                   updated_at = $5 WHERE id = $1";
    let changed = on!(db, writer, |pool| {
        let query = sqlx::query(sql).bind(id).bind(change.fragment_id).bind(change.service_type);
        query.bind(change.access_mode).bind(now).execute(pool).await?.rows_affected()
    });
    Ok(changed > 0)
}

/// Removes an entry with its methods; `false` when there is none with this id.
pub async fn delete(db: &Db, id: i64) -> Result<bool, StoreError> {
    let sql = "DELETE FROM service_entries WHERE id = $1";
    Ok(on!(db, writer, |pool| sqlx::query(sql).bind(id).execute(pool).await?.rows_affected()) > 0)
}

/// The methods of an entry, sorted; none for an unknown entry.
pub async fn xrpcs(db: &Db, id: i64) -> Result<Vec<String>, StoreError> {
    let sql = "SELECT nsid FROM service_entry_xrpcs WHERE entry_id = $1 ORDER BY nsid";
    Ok(on!(db, reader, |pool| sqlx::query_scalar(sql).bind(id).fetch_all(pool).await)?)
}

/// Adds methods to an entry; those that it has already are left as they are. `None` when there is no such entry,
/// `Some(false)` when it would have more than `max` methods; then nothing is added.
pub async fn bind_xrpcs(db: &Db, id: i64, nsids: &[String], max: i64) -> Result<Option<bool>, StoreError> {
    let exists = "SELECT id FROM service_entries WHERE id = $1";
    let add = "INSERT INTO service_entry_xrpcs (entry_id, nsid) VALUES ($1, $2) \
               ON CONFLICT (entry_id, nsid) DO NOTHING";
    let count = "SELECT count(*) FROM service_entry_xrpcs WHERE entry_id = $1";
    on!(db, writer, |pool| {
        let mut tx = pool.begin().await?;
        if sqlx::query_scalar::<_, i64>(exists).bind(id).fetch_optional(&mut *tx).await?.is_none() {
            return Ok(None);
        }
        for nsid in nsids {
            sqlx::query(add).bind(id).bind(nsid).execute(&mut *tx).await?;
        }
        let bound: i64 = sqlx::query_scalar(count).bind(id).fetch_one(&mut *tx).await?;
        if bound > max {
            return Ok(Some(false));
        }
        tx.commit().await?;
    });
    Ok(Some(true))
}

/// Removes methods from an entry. Unknown ones are ignored.
pub async fn unbind_xrpcs(db: &Db, id: i64, nsids: &[String]) -> Result<(), StoreError> {
    let sql = "DELETE FROM service_entry_xrpcs WHERE entry_id = $1 AND nsid = $2";
    on!(db, writer, |pool| {
        let mut tx = pool.begin().await?;
        for nsid in nsids {
            sqlx::query(sql).bind(id).bind(nsid).execute(&mut *tx).await?;
        }
        tx.commit().await?;
    });
    Ok(())
}
