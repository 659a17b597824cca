//! Takes the text of a record out of the index, because the record is moderated, or out of the moderated records.

use sqlx::{PgConnection, SqliteConnection};

use super::StoreError;
use super::plan::Key;
use super::remove::{self, FoundRow, RemovedRow, report_postgres};
use crate::store::counts::Changes;
use crate::store::partitions::{Partition, PerPartition, Tables};

/// The assignments that remove the text of a moderated record, and all that is about that text.
macro_rules! without_text {
    () => {
        "record = NULL, cid = NULL, cid_verified = FALSE, invalid_reason = NULL"
    };
}
pub(in crate::store) use without_text;

/// Copies the record with its reason if it is invalid, then deletes it with its references. It leaves no tombstone. A host of a
/// version before may have indexed another one of a record that is moderated already.
static SQLITE: PerPartition<[String; 2]> = PerPartition::new(|tables| {
    let find = format!("SELECT r.id, r.collection_id, r.did_id FROM {} r {OF_KEY}", tables.records);
    [copy(tables, "r.record"), find]
});
static POSTGRES: PerPartition<[String; 2]> = PerPartition::new(|tables| {
    let delete = format!("WITH {} {}", remove::postgres(tables, OF_KEY), report_postgres(tables));
    [copy(tables, "coalesce(r.record_text, r.record::text)"), delete]
});

const OF_KEY: &str = "WHERE r.collection_id = $1 AND r.did_id = $2 AND r.rkey = $3";

fn copy(Tables { records, invalid_records, .. }: &Tables, text: &str) -> String {
    format!(
        "INSERT INTO hidden_records (collection_id, did_id, rkey, is_readable, cid, cid_verified, rev, indexed_at, \
             updated_at, record, invalid_reason) \
         SELECT r.collection_id, r.did_id, r.rkey, FALSE, r.cid, r.cid_verified, r.rev, r.indexed_at, r.updated_at, \
             {text}, (SELECT i.reason FROM {invalid_records} i WHERE i.record_id = r.id) FROM {records} r {OF_KEY} \
         ON CONFLICT (collection_id, did_id, rkey) DO UPDATE SET cid = excluded.cid, \
             cid_verified = excluded.cid_verified, rev = excluded.rev, updated_at = excluded.updated_at, \
             record = excluded.record, invalid_reason = excluded.invalid_reason \
             WHERE hidden_records.rev < excluded.rev"
    )
}

/// Moves a record from the index to the moderated ones, if the index has it.
pub(super) async fn sqlite(
    conn: &mut SqliteConnection,
    partition: Partition,
    key: Key<'_>,
    changes: &mut Changes,
) -> Result<(), StoreError> {
    let [copy, find] = SQLITE.of(partition);
    sqlx::query(*copy).bind(key.0).bind(key.1).bind(key.2).execute(&mut *conn).await?;
    let query = sqlx::query_as(*find).bind(key.0).bind(key.1).bind(key.2);
    let found: Vec<FoundRow> = query.fetch_all(&mut *conn).await?;
    remove::sqlite(conn, &found, changes).await?;
    Ok(())
}

/// Like [`sqlite`].
pub(super) async fn postgres(
    conn: &mut PgConnection,
    partition: Partition,
    key: Key<'_>,
    changes: &mut Changes,
) -> Result<(), StoreError> {
    let [copy, delete] = POSTGRES.of(partition);
    sqlx::query(*copy).bind(key.0).bind(key.1).bind(key.2).execute(&mut *conn).await?;
    let query = sqlx::query_as(*delete).bind(key.0).bind(key.1).bind(key.2);
    let removed: Vec<RemovedRow> = query.fetch_all(conn).await?;
    remove::note(partition, removed, changes);
    Ok(())
}
