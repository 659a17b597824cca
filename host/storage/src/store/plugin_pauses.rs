//! Pauses plugins. `store/plugins.rs` has everything else about their rows.

use super::{Db, StoreError, on};

/// Pauses an active plugin whose module is still the one that failed. `false` when it is not.
pub async fn pause(
    db: &Db,
    id: &str,
    module_sha256: &str,
    traps: i64,
    error: &str,
) -> Result<bool, StoreError> {
    let sql = "UPDATE plugins SET status = 'paused', traps = $3, last_error = $4 \
               WHERE id = $1 AND module_sha256 = $2 AND status = 'active'";
    let paused = on!(db, writer, |pool| {
        sqlx::query(sql)
            .bind(id)
            .bind(module_sha256)
            .bind(traps)
            .bind(error.replace('\0', ""))
            .execute(pool)
            .await?
            .rows_affected()
    });
    Ok(paused > 0)
}
