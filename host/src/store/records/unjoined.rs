//! Reads a list from PostgreSQL without joining the accounts.
//!
//! The join takes as long as the rest of the statement. The accounts' DIDs never change, so they come from the cache
//! of [`Interner`](crate::store::intern::Interner); whether an account is hidden is looked up in the index of hidden accounts, which is small. The lookup
//! is a scalar subquery, because PostgreSQL may turn `NOT EXISTS` into a join that loses the order of the rows.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use bytes::Bytes;
use sqlx::Row;
use sqlx::postgres::PgRow;

use super::{ListArgs, PartialRow, RecordRow, StoreError, fetch_list, limited};
use crate::store::intern::Collection;
use crate::store::partitions::PerPartition;
use crate::store::postgres::Postgres;

macro_rules! unjoined_sql {
    ($where:literal) => {
        limited!(
            postgres,
            "$2",
            "SELECT r.id, r.did_id, r.rkey, r.indexed_at, ",
            super::record_columns!(postgres),
            " FROM {records} r WHERE r.collection_id = $1 \
              AND (SELECT 1 FROM dids d WHERE d.id = r.did_id AND d.status <> 0) IS NULL",
            $where,
            " ORDER BY r.indexed_at DESC, r.id DESC",
        )
    };
}

pub(in crate::store) static STATEMENTS: PerPartition<super::Statements> =
    PerPartition::new(super::list_wheres!(unjoined_sql));

pub(super) async fn list(
    db: &Postgres,
    collection: Collection,
    args: &ListArgs<'_>,
) -> Result<Vec<PartialRow<RecordRow>>, StoreError> {
    let statements = STATEMENTS.of(collection.partition);
    let rows: Vec<PgRow> = fetch_list!(db.read_pool, statements, collection.id, args);
    let ids = rows.iter().map(|row| row.try_get(1)).collect::<Result<Vec<i64>, _>>()?;
    let names = dids(db, ids.iter().copied()).await?;
    let found = rows.into_iter().zip(ids).map(|(row, did)| {
        let did = names.get(&did).ok_or_else(|| StoreError::Corrupt(format!("dids has no row {did}")))?;
        let record: Option<String> = row.try_get(4)?;
        let found = RecordRow {
            id: row.try_get(0)?,
            did: did.to_string(),
            collection: args.collection.clone(),
            rkey: row.try_get(2)?,
            indexed_at: row.try_get(3)?,
            record: Bytes::from(record.unwrap_or_default()),
        };
        Ok(PartialRow { row: found, size: row.try_get(5)? })
    });
    found.collect()
}

/// The DIDs of the accounts with these ids.
async fn dids(db: &Postgres, ids: impl Iterator<Item = i64>) -> Result<HashMap<i64, Arc<str>>, StoreError> {
    let (mut known, missing) = db.ids.known_dids(ids);
    if missing.is_empty() {
        return Ok(known);
    }
    let sql = "SELECT id, did FROM dids WHERE id = ANY($1)";
    let rows: Vec<(i64, String)> =
        sqlx::query_as(sql).bind(&missing[..]).fetch_all(db.read_pool.reads()).await?;
    let mut missing: HashSet<i64> = missing.into_iter().collect();
    let keep = |(id, did): (i64, String), known: &mut HashMap<i64, Arc<str>>| {
        let did: Arc<str> = did.into();
        db.ids.remember_did(id, Arc::clone(&did));
        known.insert(id, did);
    };
    for row in rows {
        missing.remove(&row.0);
        keep(row, &mut known);
    }
    if !missing.is_empty() {
        // The list came from the primary because the replica failed, and the replica does not have these accounts yet.
        let missing: Vec<i64> = missing.into_iter().collect();
        let rows: Vec<(i64, String)> =
            sqlx::query_as(sql).bind(missing).fetch_all(db.read_pool.primary().reads()).await?;
        for row in rows {
            keep(row, &mut known);
        }
    }
    Ok(known)
}
