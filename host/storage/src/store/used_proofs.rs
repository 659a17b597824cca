//! Stores used DPoP proofs and delegation tokens, so that replays are also detected on other hosts and after a restart.

use sqlx::QueryBuilder;

use belvedere_base::clock::Timestamp;

use super::{Db, StoreError, on};

/// The first half of the SHA-256 of the signer and `jti`.
pub type ProofId = [u8; 16];

/// Stores the use of proofs, which must be distinct, and returns those that were not used before.
pub async fn insert_unused(db: &Db, proofs: &[(ProofId, Timestamp)]) -> Result<Vec<ProofId>, StoreError> {
    if proofs.is_empty() {
        return Ok(Vec::new());
    }
    let unused: Vec<Vec<u8>> = on!(db, writer, |pool| {
        let mut sql = QueryBuilder::new("INSERT INTO used_proofs (id, expires_at) ");
        sql.push_values(proofs, |mut row, (id, expires_at)| {
            row.push_bind(id.to_vec()).push_bind(*expires_at);
        });
        sql.push(" ON CONFLICT (id) DO NOTHING RETURNING id");
        sql.build_query_scalar().fetch_all(pool).await?
    });
    let ids = unused.into_iter().map(|id| {
        id.try_into().map_err(|_| StoreError::Corrupt("used_proofs.id does not have 16 bytes".to_owned()))
    });
    ids.collect()
}

/// Removes proofs that expired before `before`, at most `max` per call: expired proofs are rejected anyway. Returns how
/// many.
pub async fn prune(db: &Db, before: Timestamp, max: u32) -> Result<u64, StoreError> {
    let sql =
        "DELETE FROM used_proofs WHERE id IN (SELECT id FROM used_proofs WHERE expires_at < $1 LIMIT $2)";
    Ok(on!(db, writer, |pool| {
        sqlx::query(sql).bind(before).bind(i64::from(max)).execute(pool).await?.rows_affected()
    }))
}
