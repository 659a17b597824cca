//! Stores the further keys in the instance's DID document. They are sealed; this module never handles a plain key.

use belvedere_base::clock::Timestamp;

use super::{Db, StoreError, on};

#[derive(Clone, Debug, sqlx::FromRow)]
pub struct MethodRow {
    pub id: String,
    /// `#` and a name.
    pub fragment_id: String,
    pub public_key_multibase: String,
    /// `None` once it was deleted.
    pub sealed: Option<Vec<u8>>,
    pub created_at: Timestamp,
    /// A deleted method is kept until the DID document no longer has it.
    pub deleted_at: Option<Timestamp>,
}

/// All methods, the deleted ones too, oldest first.
pub async fn list(db: &Db) -> Result<Vec<MethodRow>, StoreError> {
    let sql = "SELECT id, fragment_id, public_key_multibase, sealed, created_at, deleted_at \
               FROM verification_methods ORDER BY created_at, id";
    Ok(on!(db, writer, |pool| sqlx::query_as(sql).fetch_all(pool).await)?)
}

/// Adds a method; `false` when there are `max` already. [`StoreError::Conflict`] when the fragment exists.
pub async fn create(db: &Db, method: &MethodRow, max: i64) -> Result<bool, StoreError> {
    let sql = "INSERT INTO verification_methods (id, fragment_id, public_key_multibase, sealed, created_at) \
               SELECT $1, $2, $3, $4, $5 \
               WHERE (SELECT count(*) FROM verification_methods WHERE deleted_at IS NULL) < $6";
    let added = on!(db, writer, |pool| {
        sqlx::query(sql)
            .bind(&method.id)
            .bind(&method.fragment_id)
            .bind(&method.public_key_multibase)
            .bind(&method.sealed)
            .bind(method.created_at)
            .bind(max)
            .execute(pool)
            .await?
            .rows_affected()
    });
    Ok(added > 0)
}

/// Deletes a method and its private key; `false` when there is none.
pub async fn delete(db: &Db, fragment_id: &str, now: Timestamp) -> Result<bool, StoreError> {
    let sql = "UPDATE verification_methods SET deleted_at = $2, sealed = NULL \
               WHERE fragment_id = $1 AND deleted_at IS NULL";
    let deleted = on!(db, writer, |pool| {
        sqlx::query(sql).bind(fragment_id).bind(now).execute(pool).await?.rows_affected()
    });
    Ok(deleted > 0)
}

/// Forgets methods that were deleted up to a time, because the DID document no longer has them.
pub async fn forget_deleted(db: &Db, until: Timestamp) -> Result<(), StoreError> {
    let sql = "DELETE FROM verification_methods WHERE deleted_at <= $1";
    on!(db, writer, |pool| sqlx::query(sql).bind(until).execute(pool).await.map(drop))?;
    Ok(())
}
