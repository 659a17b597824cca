//! Deletes records with their references, and notes both for the counts.

use bytes::Bytes;
use sqlx::{PgConnection, SqliteConnection};

use crate::store::change_notes::{Action, Note};
use crate::store::counts::{Changes, CountedLink};
use crate::store::intern::Collection;
use crate::store::partitions::{Partition, PerPartition, Tables};
use crate::store::types::to_json_text;

/// A record to delete. On SQLite the statement that finds these rows runs in the transaction that deletes them.
#[derive(Clone, Copy, Debug, sqlx::FromRow)]
pub(in crate::store) struct FoundRow {
    pub id: i64,
    pub collection_id: i64,
    pub did_id: i64,
}

/// Deletes records. Returns how many.
pub(in crate::store) async fn sqlite(
    conn: &mut SqliteConnection,
    rows: &[FoundRow],
    changes: &mut Changes,
) -> Result<u64, sqlx::Error> {
    if rows.is_empty() {
        return Ok(0);
    }
    let ids: Vec<i64> = rows.iter().map(|row| row.id).collect();
    references_sqlite(conn, &ids, changes).await?;
    let sql = "DELETE FROM records WHERE id IN (SELECT value FROM json_each($1))";
    sqlx::query(sql).bind(to_json_text(&ids)).execute(conn).await?;
    for row in rows {
        changes.delete_records(row.collection_id, row.did_id, 1);
    }
    Ok(rows.len() as u64)
}

/// Deletes the references of records that stay.
pub(super) async fn references_sqlite(
    conn: &mut SqliteConnection,
    ids: &[i64],
    changes: &mut Changes,
) -> Result<(), sqlx::Error> {
    let counted = "SELECT f.target, f.collection_id, f.did_id, f.paths FROM json_each($1) v \
                   CROSS JOIN record_refs f CROSS JOIN link_counts c \
                   WHERE f.record_id = v.value AND c.target = f.target AND c.collection_id = f.collection_id AND c.path = ''";
    let ids = to_json_text(ids);
    let links: Vec<CountedLink> = sqlx::query_as(counted).bind(&ids).fetch_all(&mut *conn).await?;
    changes.delete_links(Partition::Whole, links);
    let sql = "DELETE FROM record_refs WHERE record_id IN (SELECT value FROM json_each($1))";
    sqlx::query(sql).bind(ids).execute(conn).await.map(drop)
}

/// The parts of a statement that delete the records that meet a condition, with their references, on PostgreSQL: `gone` and `refs`.
/// [`report_postgres`] ends the statement.
///
/// It sees the references as they were when it began. So the caller keeps others from replacing them, by an earlier statement: it locks
/// the repos or the records.
pub(in crate::store) fn postgres(Tables { records, record_refs, .. }: &Tables, condition: &str) -> String {
    format!(
        "gone AS (DELETE FROM {records} r {condition} RETURNING r.id, r.collection_id, r.did_id, r.rkey), \
     refs AS (DELETE FROM {record_refs} f USING gone WHERE f.record_id = gone.id \
         RETURNING f.target, f.collection_id, f.did_id, f.paths)"
    )
}

/// Returns a [`RemovedRow`] for the records of each account in each collection, and for each link to a counted target.
pub(in crate::store) fn report_postgres(tables: &Tables) -> String {
    let rkeys = if tables.in_shards() { "array_agg(rkey)" } else { "NULL::text[]" };
    format!(
        "SELECT collection_id, did_id, count(*) AS records, \
         NULL::text AS target, NULL::text AS paths, {rkeys} AS rkeys FROM gone GROUP BY collection_id, did_id \
     UNION ALL SELECT f.collection_id, f.did_id, 0, f.target, f.paths, NULL FROM refs f WHERE {}",
        tables.is_counted_postgres()
    )
}

/// Deletes records of a collection, which the transaction has locked, on PostgreSQL. Returns how many.
pub(in crate::store) async fn locked_postgres(
    conn: &mut PgConnection,
    collection: Collection,
    ids: &[i64],
    changes: &mut Changes,
) -> Result<u64, sqlx::Error> {
    let query = sqlx::query_as(*LOCKED_POSTGRES.of(collection.partition)).bind(collection.id).bind(ids);
    let removed: Vec<RemovedRow> = query.fetch_all(conn).await?;
    Ok(note(collection.partition, removed, changes))
}

static LOCKED_POSTGRES: PerPartition<String> = PerPartition::new(|tables| {
    let by_id = "WHERE r.collection_id = $1 AND r.id = ANY($2)";
    format!("WITH {} {}", postgres(tables, by_id), report_postgres(tables))
});

/// A row of [`report_postgres`].
#[derive(Debug, sqlx::FromRow)]
pub(in crate::store) struct RemovedRow {
    collection_id: Option<i64>,
    did_id: Option<i64>,
    records: i64,
    target: Option<String>,
    paths: Option<String>,
    /// The keys of the records, in shards.
    rkeys: Option<Vec<String>>,
}

/// Notes what a statement on PostgreSQL has deleted from a partition. Returns the number of records.
pub(in crate::store) fn note(partition: Partition, removed: Vec<RemovedRow>, changes: &mut Changes) -> u64 {
    let mut records = 0;
    for RemovedRow { collection_id, did_id, records: number, target, paths, rkeys } in removed {
        match (collection_id, target, did_id) {
            (Some(collection_id), Some(target), did_id) => {
                changes.delete_links(partition, [CountedLink { target, collection_id, did_id, paths }]);
            }
            (Some(collection_id), None, Some(did_id)) => {
                changes.delete_records(collection_id, did_id, number);
                let note = |rkey| Note {
                    collection_id,
                    did_id,
                    rkey,
                    action: Action::Deleted,
                    cid: None,
                    text: Bytes::new(),
                };
                changes.notes.extend(rkeys.into_iter().flatten().map(note));
                records += number as u64;
            }
            _ => {}
        }
    }
    records
}

/// The number that a statement has added to its report in a row of no collection.
pub(super) fn other_number(removed: &[RemovedRow]) -> u64 {
    removed.iter().filter(|row| row.collection_id.is_none()).map(|row| row.records as u64).sum()
}
