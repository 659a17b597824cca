//! Writes what is derived from the records of a batch, once for all of them: references with their counts, and why records are
//! invalid.

use std::collections::HashSet;
use std::sync::LazyLock;

use belvedere_protocol::atproto::record::Ref;
use sqlx::SqliteConnection;

use super::super::plan::{Row, Source};
use super::{MAX_ROWS, Shapes, json};
use crate::store::StoreError;

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

/// Adds links to the counts of their targets: target, collection, path and account of each.
const COUNT: &str = "INSERT INTO link_counts (target, collection_id, path, links, hidden) \
    SELECT value ->> 0, value ->> 1, value ->> 2, count(*), \
        sum(EXISTS (SELECT 1 FROM dids WHERE id = value ->> 3 AND status <> 0)) \
    FROM json_each($1) WHERE true GROUP BY 1, 2, 3 \
    ON CONFLICT (target, collection_id, path) DO UPDATE SET links = links + excluded.links, \
        hidden = hidden + excluded.hidden";

/// References to insert, collected over the whole batch.
#[derive(Default)]
pub(super) struct Refs<'a>(Vec<(&'a str, Source, &'a str)>);

impl<'a> Refs<'a> {
    pub(super) fn push(&mut self, refs: impl Iterator<Item = &'a Ref>, source: Source) {
        self.0.extend(refs.map(|found| (&*found.target, source, &*found.paths)));
    }

    /// Counts them here, because with a trigger an insertion takes half as long again. Triggers count deletions, which several
    /// statements do.
    pub(super) async fn insert(mut self, conn: &mut SqliteConnection) -> Result<(), StoreError> {
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
        self.count(conn).await
    }

    /// Adds them to the counts of those targets that are counted.
    async fn count(&self, conn: &mut SqliteConnection) -> Result<(), StoreError> {
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
        let mut links = Vec::new();
        for (target, source, paths) in &self.0 {
            if counted.contains(&(*target, source.collection_id)) {
                // The empty path is that of all links.
                let paths = std::iter::once("").chain(paths.split_ascii_whitespace());
                links.extend(paths.map(|path| (*target, source.collection_id, path, source.did_id)));
            }
        }
        sqlx::query(COUNT).bind(json(&links)?).execute(&mut *conn).await?;
        Ok(())
    }
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
