//! Tables of trigrams, for searches, without the texts and without the places of trigrams in them (`detail=none`): a third
//! of the size. Candidates are checked anyway.

use sqlx::AssertSqlSafe;

use crate::store::Sqlite;
use crate::store::select::{Dialect, SqliteDialect};

use super::super::IndexKey;
use super::super::error::BuildError;
use super::{Turn, create_triggers, execute};

/// Number of records that one step of filling the table reads. A write waits for one step: some 50 ms.
const STEP: i64 = 2_000;

pub(super) async fn build(db: &Sqlite, key: &IndexKey, id: i64) -> Result<(), BuildError> {
    let (name, collection) = (key.kind.index_name(id), key.collection_id);
    let text = |row: &str| SqliteDialect::text(&format!("{row}record"), &key.path);
    let text_of_new = text("NEW.");
    let insert = format!(
        "INSERT INTO {name} (rowid, txt) SELECT NEW.id, {text_of_new} WHERE {text_of_new} IS NOT NULL;"
    );
    let delete = format!("DELETE FROM {name} WHERE rowid = OLD.id;");
    let create = format!(
        "CREATE VIRTUAL TABLE {name} USING fts5(txt, content='', contentless_delete=1, detail=none, tokenize='trigram'); {}",
        create_triggers(&name, collection, &delete, &insert)
    );
    execute(db, create).await?;

    // The triggers handle all changes from here on; older records are added in steps, along the index of lists, so that
    // a small collection is quickly done beside a large one.
    let last = format!("SELECT max(indexed_at) FROM records WHERE collection_id = {collection}");
    let last: Option<i64> = sqlx::query_scalar(AssertSqlSafe(last)).fetch_one(&db.reader).await?;
    let Some(last) = last else { return Ok(()) };
    let step = format!(
        "SELECT indexed_at, id FROM (SELECT indexed_at, id FROM records WHERE collection_id = {collection} \
             AND (indexed_at, id) > ($1, $2) AND indexed_at <= $3 ORDER BY indexed_at, id LIMIT {STEP}) \
         ORDER BY indexed_at DESC, id DESC LIMIT 1"
    );
    let text = text("");
    let fill = format!(
        "INSERT OR REPLACE INTO {name} (rowid, txt) SELECT id, {text} FROM records \
         WHERE collection_id = {collection} AND (indexed_at, id) > ($1, $2) AND (indexed_at, id) <= ($3, $4) \
             AND {text} IS NOT NULL ORDER BY indexed_at, id"
    );
    let mut from = (i64::MIN, i64::MIN);
    let mut turn = Turn::wait(db).await?;
    loop {
        let next = sqlx::query_as(AssertSqlSafe(step.clone())).bind(from.0).bind(from.1).bind(last);
        let Some(to): Option<(i64, i64)> = next.fetch_optional(&db.reader).await? else { return Ok(()) };
        turn = turn.next(db).await?;
        let fill = sqlx::query(AssertSqlSafe(fill.clone())).bind(from.0).bind(from.1).bind(to.0).bind(to.1);
        fill.execute(&mut *turn.writer).await?;
        from = to;
    }
}
