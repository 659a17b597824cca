//! References of records that were stored before references had paths: a task of the server reads these records again.
//!
//! A host of a version before stores more of them (ADR 139). On PostgreSQL, where it may run beside this one, a trigger notes their
//! collection at once. On SQLite it ran before this one, and they are looked for in
//! an index.

use belvedere_base::clock::Timestamp;
use belvedere_protocol::atproto::Nsid;

use super::super::{Db, StoreError, intern, on};
use super::{Reread, postgres, sqlite};
use crate::query::Keyset;

/// A collection with such records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unread {
    pub collection: Nsid,
    /// The last record that was read, in the order in which they were indexed.
    pub after: Keyset,
}

/// A collection that is still to be read; `None`: all are done.
pub async fn next(db: &Db) -> Result<Option<Unread>, StoreError> {
    let sql = "SELECT c.nsid, u.after_indexed_at, u.after_id FROM unread_refs u \
               JOIN collections c ON c.id = u.collection_id ORDER BY u.collection_id LIMIT 1";
    let row: Option<(String, Timestamp, i64)> =
        on!(db, reader, |pool| sqlx::query_as(sql).fetch_optional(pool).await)?;
    row.map(|(nsid, indexed_at, id)| {
        let collection =
            Nsid::try_from(nsid.as_str()).map_err(|error| StoreError::Corrupt(error.to_string()))?;
        Ok(Unread { collection, after: Keyset { indexed_at, id } })
    })
    .transpose()
}

/// Notes the collections that have such references again.
pub async fn look_again(db: &Db) -> Result<(), StoreError> {
    let Db::Sqlite(db) = db else { return Ok(()) };
    let sql = "INSERT INTO unread_refs (collection_id, after_indexed_at, after_id) \
               SELECT c.id, -9223372036854775808, -9223372036854775808 FROM collections c WHERE EXISTS \
                   (SELECT 1 FROM record_refs f INDEXED BY record_refs_unread \
                    WHERE f.collection_id = c.id AND f.paths IS NULL) \
               ON CONFLICT DO NOTHING";
    sqlx::query(sql).execute(&db.writer).await?;
    Ok(())
}

/// Notes the last record of a collection that was read; `None`: no more are left, and it begins again if it has got more since.
pub async fn set(db: &Db, collection: &Nsid, after: Option<Keyset>) -> Result<(), StoreError> {
    let Some(collection) = intern::collection(db, collection).await? else { return Ok(()) };
    let update = "UPDATE unread_refs SET after_indexed_at = $2, after_id = $3 WHERE collection_id = $1";
    let again = "UPDATE unread_refs SET is_again = FALSE, after_indexed_at = -9223372036854775808, \
                     after_id = -9223372036854775808 \
                 WHERE collection_id = $1 AND is_again";
    let done = "DELETE FROM unread_refs WHERE collection_id = $1 AND NOT is_again";
    on!(db, writer, |pool| {
        if let Some(Keyset { indexed_at, id }) = after {
            sqlx::query(update).bind(collection.id).bind(indexed_at).bind(id).execute(pool).await?;
        } else if sqlx::query(again).bind(collection.id).execute(pool).await?.rows_affected() == 0 {
            sqlx::query(done).bind(collection.id).execute(pool).await?;
        }
    });
    Ok(())
}

/// Replaces the references of records that have not changed since they were read.
pub async fn replace(db: &Db, collection: &Nsid, records: &[Reread]) -> Result<(), StoreError> {
    let Some(collection) = intern::collection(db, collection).await? else { return Ok(()) };
    match db {
        Db::Sqlite(db) => sqlite::replace_refs(db, collection, records).await,
        Db::Postgres(db) => postgres::replace_refs(db, collection, records).await,
    }
}
