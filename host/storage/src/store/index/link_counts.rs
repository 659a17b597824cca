//! Begins to count the links of targets that have many (ADR 120), when they get more and when they are counted. Writers keep
//! the numbers from then on ([`counts`](crate::store::counts)).

use std::collections::BTreeMap;

use belvedere_base::clock::Timestamp;
use belvedere_protocol::atproto::{Nsid, RecordUri};

use super::super::counts::postgres::LOCK;
use super::super::intern::{self, Collection};
use super::super::partitions::{PerPartition, Tables};
use super::super::{Db, StoreError, on};
use super::Batch;
use super::plan::{fnv_1a, storable};

/// The links from which on a target is counted. Fewer are counted when they are read, in some tens of microseconds.
pub(in crate::store) const MANY: i64 = 200;

/// One record of so many has the targets of its links looked at, so that a target is counted soon after it has
/// [`MANY`] links, and most links cost nothing.
const SAMPLE: u32 = 32;

/// Targets, of a collection, that have many links and are not counted.
static FIND: [PerPartition<String>; 2] = [
    PerPartition::new(|tables| find(tables, "json_each($1) v")),
    PerPartition::new(|tables| find(tables, "unnest($1::text[]) v (value)")),
];

fn find(Tables { record_refs, link_counts, .. }: &Tables, targets: &str) -> String {
    format!(
        "SELECT v.value FROM {targets} WHERE NOT EXISTS (SELECT 1 FROM {link_counts} c \
                 WHERE c.target = v.value AND c.collection_id = $2 AND c.path = '') \
             AND {}",
        has_many(record_refs)
    )
}

/// The condition that the target `v.value` has many links from the collection `$2`, whose links are complete.
fn has_many(record_refs: &str) -> String {
    format!(
        "({IS_COMPLETE} AND (SELECT count(*) FROM (SELECT 1 FROM {record_refs} f \
             WHERE f.target = v.value AND f.collection_id = $2 LIMIT {MANY}) many) = {MANY})"
    )
}

/// The condition that no record of the collection `$2` is still to be read again for its links.
pub(in crate::store) const IS_COMPLETE: &str =
    "NOT EXISTS (SELECT 1 FROM unread_refs u WHERE u.collection_id = $2)";

/// Counts all links of a target, at each path and in all.
static BEGIN: [PerPartition<String>; 2] = [
    PerPartition::new(|tables| {
        let each = "json_each('[\"\"' || iif(f.paths <> '', ',\"' || replace(f.paths, ' ', '\",\"') || '\"', '') || ']') p";
        begin(tables, "p.value", each)
    }),
    PerPartition::new(|tables| {
        let each = "LATERAL unnest(array_append(string_to_array(nullif(f.paths, ''), ' '), '')) AS p (path)";
        begin(tables, "p.path", each)
    }),
];

fn begin(Tables { record_refs, link_counts, .. }: &Tables, path: &str, paths: &str) -> String {
    format!(
        "INSERT INTO {link_counts} (target, collection_id, path, links, hidden) \
         SELECT $1, $2, {path}, count(*), count(d.id) FROM {record_refs} f \
             LEFT JOIN dids d ON d.id = f.did_id AND d.status <> 0 CROSS JOIN {paths} \
         WHERE f.target = $1 AND f.collection_id = $2 AND {IS_COMPLETE} \
         GROUP BY {path} ON CONFLICT DO NOTHING"
    )
}

/// Targets that are looked at after a batch, of each collection.
const MAX_LOOKED_AT: usize = 50;

/// Targets of one record that are looked at, so that a record with thousands leaves room for the others of its batch.
const MAX_OF_RECORD: usize = 10;

/// Begins to count a target of a few of a batch's records, if one has many links: others are found after a later batch.
pub(super) async fn begin_some(db: &Db, Batch { changes, now, .. }: &Batch) -> Result<(), StoreError> {
    let mut targets: BTreeMap<&Nsid, Vec<(u32, &str)>> = BTreeMap::new();
    for change in changes {
        if let Some(record) = &change.record
            && is_sampled(&change.uri, *now)
        {
            let found = storable(&record.refs).map(|found| &*found.target);
            let mut found: Vec<_> = found.map(|target| (rank(target.bytes(), *now), target)).collect();
            if !found.is_empty() {
                found.sort_unstable();
                found.truncate(MAX_OF_RECORD);
                targets.entry(&change.uri.collection).or_default().extend(found);
            }
        }
    }
    for (collection, mut ranked) in targets {
        ranked.sort_unstable();
        ranked.dedup();
        ranked.truncate(MAX_LOOKED_AT);
        let targets: Vec<&str> = ranked.into_iter().map(|(_, target)| target).collect();
        let Some(collection) = intern::collection(db, collection).await? else { continue };
        if let Some(target) = with_many(db, collection, &targets).await?.first() {
            begin_one(db, collection, target).await?;
        }
    }
    Ok(())
}

fn is_sampled(uri: &RecordUri, now: Timestamp) -> bool {
    rank(uri.did.as_str().bytes().chain(uri.rkey.as_str().bytes()), now).is_multiple_of(SAMPLE)
}

/// An order in which each comes first some time. The time of the batch keeps authors from choosing names by it.
fn rank(name: impl Iterator<Item = u8>, now: Timestamp) -> u32 {
    fnv_1a(name.chain(now.0.to_le_bytes())) >> 8
}

async fn with_many(db: &Db, collection: Collection, targets: &[&str]) -> Result<Vec<String>, StoreError> {
    let [sqlite, postgres] = &FIND;
    let found = match db {
        Db::Sqlite(db) => {
            let sql = sqlx::query_scalar(*sqlite.of(collection.partition));
            sql.bind(super::sqlite::json(targets)?).bind(collection.id).fetch_all(&db.reader).await?
        }
        Db::Postgres(db) => {
            let sql = sqlx::query_scalar(*postgres.of(collection.partition));
            sql.bind(targets).bind(collection.id).fetch_all(&db.pool).await?
        }
    };
    Ok(found)
}

/// Counts a target from now on. Reads all of its links once, while no record is written.
pub(in crate::store) async fn begin_one(
    db: &Db,
    collection: Collection,
    target: &str,
) -> Result<(), StoreError> {
    let [sqlite, postgres] = &BEGIN;
    let sql = match db {
        Db::Sqlite(_) => sqlite.of(collection.partition),
        Db::Postgres(_) => postgres.of(collection.partition),
    };
    let is_postgres = matches!(db, Db::Postgres(_));
    on!(db, writer, |pool| {
        let mut tx = pool.begin().await?;
        if is_postgres {
            // Alone with the lock, the statement sees all links that others have not counted.
            sqlx::query(LOCK).execute(&mut *tx).await?;
        }
        sqlx::query(*sql).bind(target).bind(collection.id).execute(&mut *tx).await?;
        tx.commit().await?;
    });
    Ok(())
}
