//! Indexes of record fields on SQLite: tables that triggers keep up to date.
//!
//! `CREATE INDEX` would hold the write lock until it is done, for a minute with ten million records. A table is filled in
//! steps between other writes. The triggers are in the transaction that changes a record, so an index is never behind.

mod ordered;
mod search;

use std::time::{Duration, Instant};

use sqlx::AssertSqlSafe;
use sqlx::pool::PoolConnection;

use crate::store::{Sqlite, StoreError};

use super::error::BuildError;
use super::{IndexKey, IndexKind};

pub(super) async fn build(db: &Sqlite, key: &IndexKey, id: i64) -> Result<(), BuildError> {
    match key.kind {
        IndexKind::Filter => ordered::build(db, &ordered::filter(), &key.kind.index_name(id), key).await,
        IndexKind::Sort => ordered::build(db, &ordered::sort(), &key.kind.index_name(id), key).await,
        IndexKind::Search => {
            ordered::build(db, &ordered::texts(), &texts_name(id), key).await?;
            search::build(db, key, id).await
        }
    }
}

/// The name of the table of a search index that has the texts in order.
pub(in crate::store) fn texts_name(id: i64) -> String {
    format!("field_texts_{id}")
}

/// Also drops what is left of an incomplete one, and an index of the form before migration 45.
pub(super) async fn drop_index(db: &Sqlite, kind: IndexKind, id: i64) -> Result<(), StoreError> {
    let drop = |name: String| {
        format!(
            "{} DROP TABLE IF EXISTS {}; DROP INDEX IF EXISTS {name}; DROP TABLE IF EXISTS {name};",
            drop_triggers(&name),
            ordered::changed(&name)
        )
    };
    let texts = if kind == IndexKind::Search { drop(texts_name(id)) } else { String::new() };
    execute(db, drop(kind.index_name(id)) + &texts).await
}

/// The statements that drop the triggers of an index, if it has any.
fn drop_triggers(index: &str) -> String {
    ["insert", "update", "delete"].map(|event| format!("DROP TRIGGER IF EXISTS {index}_{event};")).concat()
}

/// The statements that create the triggers of an index: what they do with the record before a change, and after it.
fn create_triggers(index: &str, collection: i64, old: &str, new: &str) -> String {
    let trigger = |event: &str, on: &str, row: &str, actions: &str| {
        format!(
            "CREATE TRIGGER {index}_{event} AFTER {on} ON records WHEN {row}.collection_id = {collection} \
             BEGIN {actions} END;"
        )
    };
    [
        trigger("insert", "INSERT", "NEW", new),
        trigger("update", "UPDATE OF record", "NEW", &format!("{old} {new}")),
        trigger("delete", "DELETE", "OLD", old),
    ]
    .concat()
}

/// Divides the time that a build waits for the writer into the time that it may then hold it: the stream keeps four
/// fifths.
const SHARE: u32 = 4;
/// Longest time for which a build holds the writer, beyond the step that it has begun.
const LONGEST_TURN: Duration = Duration::from_millis(500);

/// The time for which a build holds the server's writer, which is the queue in which writers wait. On an idle server each step
/// has a turn of its own; beside a busy stream, whose batches take long, a turn has as many as fit into its share.
struct Turn {
    writer: PoolConnection<sqlx::Sqlite>,
    until: Instant,
}

impl Turn {
    async fn wait(db: &Sqlite) -> Result<Self, StoreError> {
        let asked = Instant::now();
        let writer = db.writer.acquire().await?;
        let begun = Instant::now();
        Ok(Self { writer, until: begun + ((begun - asked) / SHARE).min(LONGEST_TURN) })
    }

    /// The turn for the next step: this one, or another one when this one is over.
    async fn next(self, db: &Sqlite) -> Result<Self, StoreError> {
        if Instant::now() < self.until {
            return Ok(self);
        }
        drop(self);
        Self::wait(db).await
    }
}

/// Runs statements in one transaction.
async fn execute(db: &Sqlite, sql: String) -> Result<(), StoreError> {
    let mut tx = db.writer.begin_with("BEGIN IMMEDIATE").await?;
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut *tx).await?;
    tx.commit().await?;
    Ok(())
}
