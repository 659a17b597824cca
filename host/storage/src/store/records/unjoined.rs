//! Rows from PostgreSQL, whose statements do not join the accounts (ADR 67).
//!
//! The join takes as long as the rest of a list's statement. The accounts' DIDs never change, so they come from the cache
//! of [`Interner`](crate::store::intern::Interner); whether an account is hidden is looked up in the index of hidden accounts, which is small. The lookup
//! is a scalar subquery, because PostgreSQL may turn `NOT EXISTS` into a join that loses the order of the rows. Statements
//! that sort all records they find join the accounts all the same: for many rows a join is cheaper than a lookup for each.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use sqlx::Row;
use sqlx::postgres::PgRow;

use super::StoreError;
use crate::store::postgres::Postgres;
use belvedere_protocol::atproto::Did;

/// A row with the columns of a row, and the DID of its account.
#[derive(Debug)]
pub(in crate::store) struct RowWithDid {
    pub(in crate::store) columns: PgRow,
    pub(in crate::store) did: Arc<str>,
}

impl RowWithDid {
    pub(super) fn new(columns: PgRow, did: &Did) -> Self {
        Self { columns, did: did.as_str().into() }
    }
}

/// Adds the DIDs of the accounts to the rows.
pub(in crate::store) async fn with_dids(
    db: &Postgres,
    rows: Vec<PgRow>,
) -> Result<Vec<RowWithDid>, StoreError> {
    let ids = rows.iter().map(|row| row.try_get(1)).collect::<Result<Vec<i64>, _>>()?;
    let dids = dids(db, ids.iter().copied()).await?;
    let found = rows.into_iter().zip(ids).map(|(columns, id)| {
        let did = dids.get(&id).ok_or_else(|| StoreError::Corrupt(format!("dids has no row {id}")))?;
        Ok(RowWithDid { columns, did: Arc::clone(did) })
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
        sqlx::query_as(sql).bind(&missing[..]).fetch_all(db.read_pools.hot.reads()).await?;
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
            sqlx::query_as(sql).bind(missing).fetch_all(db.read_pools.hot.primary().reads()).await?;
        for row in rows {
            keep(row, &mut known);
        }
    }
    Ok(known)
}
