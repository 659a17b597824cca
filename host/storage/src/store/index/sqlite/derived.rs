//! Writes what is derived from the records of a batch, once for all of them: references, and why records are invalid.

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

/// References to insert, collected over the whole batch.
#[derive(Default)]
pub(super) struct Refs<'a>(Vec<(&'a str, Source, &'a str)>);

impl<'a> Refs<'a> {
    pub(super) fn push(&mut self, refs: impl Iterator<Item = &'a Ref>, source: Source) {
        self.0.extend(refs.map(|found| (&*found.target, source, &*found.paths)));
    }

    pub(super) async fn insert(mut self, conn: &mut SqliteConnection) -> Result<(), StoreError> {
        // In the order of the table, which is clustered by target.
        self.0.sort_unstable();
        for chunk in self.0.chunks(MAX_ROWS) {
            let mut query = INSERT_REFS.query(chunk.len());
            for (target, Source { collection_id, id, did_id }, paths) in chunk {
                query = query.bind(*target).bind(collection_id).bind(id).bind(did_id).bind(*paths);
            }
            query.execute(&mut *conn).await?;
        }
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
