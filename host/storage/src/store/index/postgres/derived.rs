//! Writes what is derived from the records of a batch: references, and why records are invalid.

use std::collections::HashMap;

use belvedere_protocol::atproto::record::Ref;
use sqlx::PgConnection;

use super::super::Reread;
use super::super::plan::{Row, Source, storable};
use crate::store::counts::{Changes, CountedLink, Counting as _};
use crate::store::intern::Collection;
use crate::store::partitions::{Partition, PerPartition, Tables};
use crate::store::{Postgres, StoreError};

/// Deletes the references of records, and adds some. Both return those whose targets are counted.
pub(in crate::store) static REFS: PerPartition<[String; 2]> = PerPartition::new(
    |tables @ Tables { record_refs, .. }| {
        let counted = format!("SELECT f.* FROM f WHERE {}", tables.is_counted_postgres());
        [
            format!(
                "WITH f AS (DELETE FROM {record_refs} WHERE record_id = ANY($1) RETURNING {LINK}) {counted}"
            ),
            // No conflicts: a record's references are distinct, and those of before were deleted.
            format!(
                "WITH f AS (INSERT INTO {record_refs} (target, collection_id, record_id, did_id, paths) \
     SELECT * FROM UNNEST ($1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::text[]) RETURNING {LINK}) {counted}"
            ),
        ]
    },
);
const LINK: &str = "target, collection_id, did_id, paths";

/// References to insert, collected over the whole batch.
#[derive(Default)]
pub(super) struct Refs<'a> {
    targets: Vec<&'a str>,
    collections: Vec<i64>,
    ids: Vec<i64>,
    dids: Vec<i64>,
    paths: Vec<&'a str>,
}

impl<'a> Refs<'a> {
    pub(super) fn push(&mut self, refs: impl Iterator<Item = &'a Ref>, source: Source) {
        for found in refs {
            self.targets.push(&found.target);
            self.collections.push(source.collection_id);
            self.ids.push(source.id);
            self.dids.push(source.did_id);
            self.paths.push(&found.paths);
        }
    }

    /// Inserts them into a partition.
    pub(super) async fn insert(
        self,
        conn: &mut PgConnection,
        partition: Partition,
        changes: &mut Changes,
    ) -> Result<(), sqlx::Error> {
        let Self { targets, collections, ids, dids, paths } = self;
        if !targets.is_empty() {
            let query = sqlx::query_as(REFS.of(partition)[1])
                .bind(targets)
                .bind(collections)
                .bind(ids)
                .bind(dids)
                .bind(paths);
            changes.insert_links(partition, query.fetch_all(conn).await?);
        }
        Ok(())
    }
}

/// The records that have not changed since they were read, which it keeps from changing.
static SAME: PerPartition<String> = PerPartition::new(|Tables { records, .. }| {
    format!(
        "SELECT r.id, r.did_id FROM UNNEST ($1::bigint[], $2::bigint[]) v (id, updated_at) JOIN {records} r \
             ON r.id = v.id AND r.updated_at = v.updated_at AND r.collection_id = $3 ORDER BY r.id FOR SHARE OF r"
    )
});

/// See [`unread::replace`](super::super::unread::replace).
pub(in super::super) async fn replace_refs(
    db: &Postgres,
    collection: Collection,
    records: &[Reread],
) -> Result<(), StoreError> {
    let mut tx = db.pool.begin().await?;
    // Before the rows, as a batch with a change of an account has it.
    tx.begin_counting().await?;
    let mut changes = Changes::default();
    let (ids, times): (Vec<i64>, Vec<i64>) =
        records.iter().map(|record| (record.id, record.updated_at.0)).unzip();
    let same = sqlx::query_as(*SAME.of(collection.partition)).bind(ids).bind(times).bind(collection.id);
    let same: HashMap<i64, i64> = same.fetch_all(&mut *tx).await?.into_iter().collect();
    let query =
        sqlx::query_as(REFS.of(collection.partition)[0]).bind(same.keys().copied().collect::<Vec<i64>>());
    let deleted: Vec<CountedLink> = query.fetch_all(&mut *tx).await?;
    changes.delete_links(collection.partition, deleted);
    let mut refs = Refs::default();
    for record in records {
        let Some(&did_id) = same.get(&record.id) else { continue };
        refs.push(storable(&record.refs), Source { collection_id: collection.id, id: record.id, did_id });
    }
    refs.insert(&mut tx, collection.partition, &mut changes).await?;
    tx.count(changes).await?;
    tx.commit().await?;
    Ok(())
}

/// Forgets that records are invalid, and notes that they are.
pub(super) static INVALID: PerPartition<[String; 2]> =
    PerPartition::new(|Tables { invalid_records, .. }| {
        [
            format!("DELETE FROM {invalid_records} WHERE record_id = ANY($1)"),
            format!(
                "INSERT INTO {invalid_records} (record_id, collection_id, reason) \
                 SELECT * FROM UNNEST ($1::bigint[], $2::bigint[], $3::text[]) \
                 ON CONFLICT (record_id) DO UPDATE SET reason = excluded.reason"
            ),
        ]
    });

/// Invalid records, collected over the whole batch.
#[derive(Default)]
pub(super) struct Invalid<'a> {
    ids: Vec<i64>,
    collections: Vec<i64>,
    reasons: Vec<&'a str>,
}

impl<'a> Invalid<'a> {
    pub(super) fn push(&mut self, row: &Row<'a>, id: i64) {
        if let Some(reason) = row.record.validity.reason() {
            self.ids.push(id);
            self.collections.push(row.collection_id);
            self.reasons.push(reason);
        }
    }

    /// `insert`: of [`INVALID`].
    pub(super) async fn insert(
        self,
        conn: &mut PgConnection,
        insert: &'static str,
    ) -> Result<(), sqlx::Error> {
        if self.ids.is_empty() {
            return Ok(());
        }
        sqlx::query(insert).bind(self.ids).bind(self.collections).bind(self.reasons).execute(conn).await?;
        Ok(())
    }
}
