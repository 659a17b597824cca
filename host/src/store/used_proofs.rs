//! DPoP proofs that were used. The table is what several hosts share, and what a restart leaves.

use sqlx::QueryBuilder;

use crate::clock::Timestamp;

use super::{Db, StoreError, on};

/// Half of a SHA-256 of key and `jti`.
pub type ProofId = [u8; 16];

/// Notes the use of proofs, each once, and gives those of them that nobody had used before.
pub async fn keep(db: &Db, proofs: &[(ProofId, Timestamp)]) -> Result<Vec<ProofId>, StoreError> {
    if proofs.is_empty() {
        return Ok(Vec::new());
    }
    let fresh: Vec<Vec<u8>> = on!(db, writer, |pool| {
        let mut sql = QueryBuilder::new("INSERT INTO used_proofs (id, expires_at) ");
        sql.push_values(proofs, |mut row, (id, expires_at)| {
            row.push_bind(id.to_vec()).push_bind(*expires_at);
        });
        sql.push(" ON CONFLICT (id) DO NOTHING RETURNING id");
        sql.build_query_scalar().fetch_all(pool).await?
    });
    let read = fresh.into_iter().map(|id| {
        id.try_into().map_err(|_| StoreError::Corrupt("used_proofs.id has another length".to_owned()))
    });
    read.collect()
}

/// Forgets proofs that nobody would take any more; at most `max` a call. Returns how many.
pub async fn prune(db: &Db, before: Timestamp, max: u32) -> Result<u64, StoreError> {
    let sql =
        "DELETE FROM used_proofs WHERE id IN (SELECT id FROM used_proofs WHERE expires_at < $1 LIMIT $2)";
    Ok(on!(db, writer, |pool| {
        sqlx::query(sql).bind(before).bind(i64::from(max)).execute(pool).await?.rows_affected()
    }))
}
