//! Writes what is derived from the records of a batch, once for all of them: references, and why records are invalid.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use belvedere_protocol::atproto::record::Ref;
use sqlx::SqliteConnection;

use super::super::plan::{Row, Source, storable};
use super::super::{Reread, remove};
use super::{MAX_ROWS, Shapes, json};
use crate::store::counts::{Changes, CountedLink, Counting as _};
use crate::store::intern::Collection;
use crate::store::partitions::Partition;
use crate::store::{Sqlite, StoreError};

pub(super) static INSERT_REFS: LazyLock<Shapes> = LazyLock::new(|| {
    Shapes::new(
        5,
        "INSERT OR FAIL INTO record_refs (target, collection_id, record_id, did_id, paths) \
         SELECT column1, column2, column3, column4, column5 FROM",
        "WHERE column1 IS NOT NULL ON CONFLICT DO NOTHING",
    )
});

/// The targets that are counted (ADR 120), of pairs of a target and a collection.
static COUNTED: LazyLock<Shapes> = LazyLock::new(|| {
    Shapes::new(
        2,
        "SELECT c.target, c.collection_id FROM",
        "CROSS JOIN link_counts c WHERE c.target = v.column1 AND c.collection_id = v.column2 AND c.path = ''",
    )
});

/// References to insert, collected over the whole batch.
#[derive(Default)]
pub(super) struct Refs<'a>(Vec<(&'a str, Source, &'a str)>);

impl<'a> Refs<'a> {
    pub(super) fn push(&mut self, refs: impl Iterator<Item = &'a Ref>, source: Source) {
        self.0.extend(refs.map(|found| (&*found.target, source, &*found.paths)));
    }

    pub(super) async fn insert(
        mut self,
        conn: &mut SqliteConnection,
        changes: &mut Changes,
    ) -> Result<(), StoreError> {
        // In the order of the table, which is clustered by target.
        self.0.sort_unstable();
        self.0.dedup_by_key(|(target, source, _)| (*target, *source));
        for chunk in self.0.chunks(MAX_ROWS) {
            let mut query = INSERT_REFS.query(chunk.len());
            for (target, Source { collection_id, id, did_id }, paths) in chunk {
                query = query.bind(*target).bind(collection_id).bind(id).bind(did_id).bind(*paths);
            }
            query.execute(&mut *conn).await?;
        }
        self.note(conn, changes).await
    }

    /// Notes those whose targets are counted.
    async fn note(&self, conn: &mut SqliteConnection, changes: &mut Changes) -> Result<(), StoreError> {
        let any = sqlx::query_scalar("SELECT EXISTS (SELECT 1 FROM link_counts)");
        if self.0.is_empty() || !any.fetch_one(&mut *conn).await? {
            return Ok(());
        }
        let mut targets: Vec<_> =
            self.0.iter().map(|(target, source, _)| (*target, source.collection_id)).collect();
        targets.dedup();
        let mut counted: HashSet<(String, i64)> = HashSet::new();
        for chunk in targets.chunks(MAX_ROWS) {
            let mut query = sqlx::query_as(COUNTED.text(chunk.len()));
            for (target, collection_id) in chunk {
                query = query.bind(*target).bind(collection_id);
            }
            counted.extend(query.fetch_all(&mut *conn).await?);
        }
        if counted.is_empty() {
            return Ok(());
        }
        let counted: HashSet<(&str, i64)> =
            counted.iter().map(|(target, id)| (target.as_str(), *id)).collect();
        let links =
            self.0.iter().filter(|(target, source, _)| counted.contains(&(*target, source.collection_id)));
        let links = links.map(|(target, source, paths)| CountedLink {
            target: (*target).to_owned(),
            collection_id: source.collection_id,
            did_id: Some(source.did_id),
            paths: Some((*paths).to_owned()),
        });
        changes.insert_links(Partition::Whole, links);
        Ok(())
    }
}

/// See [`unread::replace`](super::super::unread::replace).
pub(in super::super) async fn replace_refs(
    db: &Sqlite,
    collection: Collection,
    records: &[Reread],
) -> Result<(), StoreError> {
    let mut tx = db.writer.begin_with("BEGIN IMMEDIATE").await?;
    let keys: Vec<_> = records.iter().map(|record| (record.id, record.updated_at.0)).collect();
    let sql = "SELECT r.id, r.did_id FROM json_each($1) v CROSS JOIN records r \
               WHERE r.id = v.value ->> 0 AND r.updated_at = v.value ->> 1 AND r.collection_id = $2";
    let same: Vec<(i64, i64)> =
        sqlx::query_as(sql).bind(json(&keys)?).bind(collection.id).fetch_all(&mut *tx).await?;
    let ids: Vec<i64> = same.iter().map(|(id, _)| *id).collect();
    let mut changes = Changes::default();
    tx.begin_counting().await?;
    remove::references_sqlite(&mut tx, &ids, &mut changes).await?;
    let same: HashMap<i64, i64> = same.into_iter().collect();
    let mut refs = Refs::default();
    for record in records {
        let Some(&did_id) = same.get(&record.id) else { continue };
        refs.push(storable(&record.refs), Source { collection_id: collection.id, id: record.id, did_id });
    }
    refs.insert(&mut tx, &mut changes).await?;
    tx.count(changes).await?;
    tx.commit().await?;
    Ok(())
}

/// Invalid records, collected over the whole batch: id, collection, reason.
#[derive(Default)]
pub(super) struct Invalid<'a>(Vec<(i64, i64, &'a str)>);

impl<'a> Invalid<'a> {
    pub(super) fn push(&mut self, row: &Row<'a>, id: i64) {
        self.0.extend(row.record.validity.reason().map(|reason| (id, row.collection_id, reason)));
    }

    pub(super) async fn insert(self, conn: &mut SqliteConnection) -> Result<(), StoreError> {
        if self.0.is_empty() {
            return Ok(());
        }
        let sql = "INSERT INTO invalid_records (record_id, collection_id, reason) \
                   SELECT value ->> 0, value ->> 1, value ->> 2 FROM json_each($1) WHERE true \
                   ON CONFLICT (record_id) DO UPDATE SET collection_id = excluded.collection_id, \
                       reason = excluded.reason";
        sqlx::query(sql).bind(json(&self.0)?).execute(&mut *conn).await?;
        Ok(())
    }
}
