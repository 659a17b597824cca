//! Stores the origins under which the instance is reachable; one of them is the primary.

use schemars::JsonSchema;
use serde::Serialize;

use belvedere_base::clock::Timestamp;

use super::{Db, StoreError, on};

#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow, Serialize, JsonSchema)]
#[schemars(rename = "Domain")]
pub struct DomainRow {
    pub id: String,
    /// Scheme, host and port, without a trailing slash.
    pub url: String,
    pub is_primary: bool,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// Oldest first.
pub async fn list(db: &Db) -> Result<Vec<DomainRow>, StoreError> {
    let sql = "SELECT id, url, is_primary, created_at, updated_at FROM domains ORDER BY created_at, id";
    Ok(on!(db, reader, |pool| sqlx::query_as(sql).fetch_all(pool).await)?)
}

/// Adds a domain. [`StoreError::Conflict`] when the origin exists already.
pub async fn create(db: &Db, domain: &DomainRow) -> Result<(), StoreError> {
    let sql = "INSERT INTO domains (id, url, is_primary, created_at, updated_at) VALUES ($1, $2, $3, $4, $5)";
    on!(db, writer, |pool| {
        sqlx::query(sql)
            .bind(&domain.id)
            .bind(&domain.url)
            .bind(domain.is_primary)
            .bind(domain.created_at)
            .bind(domain.updated_at)
            .execute(pool)
            .await
            .map(drop)
    })?;
    Ok(())
}

/// Adds the origin of PUBLIC_URL, under `id` if it is new. It becomes the primary domain unless it was PUBLIC_URL at the
/// last start already: then the primary stays the one that an admin chose.
pub async fn set_origin(db: &Db, id: &str, url: &str, now: Timestamp) -> Result<(), StoreError> {
    let add = "INSERT INTO domains (id, url, is_primary, created_at, updated_at) \
               VALUES ($1, $2, FALSE, $3, $3) ON CONFLICT (url) DO NOTHING";
    let changed = "SELECT id FROM domains WHERE url = $1 AND is_public_url = FALSE";
    let mark = "UPDATE domains SET is_public_url = (url = $1)";
    on!(db, writer, |pool| sqlx::query(add).bind(id).bind(url).bind(now).execute(pool).await.map(drop))?;
    let changed: Option<String> =
        on!(db, writer, |pool| sqlx::query_scalar(changed).bind(url).fetch_optional(pool).await)?;
    if let Some(id) = changed {
        // Marked last: after a crash in between, the next start repeats both.
        set_primary(db, &id, now).await?;
        on!(db, writer, |pool| sqlx::query(mark).bind(url).execute(pool).await.map(drop))?;
    }
    Ok(())
}

/// `false` when there is no such domain.
pub async fn set_primary(db: &Db, id: &str, now: Timestamp) -> Result<bool, StoreError> {
    // Two statements, because a single one could violate the unique index of the primary row by row.
    let unset = "UPDATE domains SET is_primary = FALSE, updated_at = $2 WHERE is_primary = TRUE AND id <> $1 \
                 AND EXISTS (SELECT 1 FROM domains WHERE id = $1)";
    let set = "UPDATE domains SET is_primary = TRUE, \
                   updated_at = CASE WHEN is_primary = TRUE THEN updated_at ELSE $2 END WHERE id = $1";
    let found = on!(db, writer, |pool| {
        let mut tx = pool.begin().await?;
        sqlx::query(unset).bind(id).bind(now).execute(&mut *tx).await?;
        let found = sqlx::query(set).bind(id).bind(now).execute(&mut *tx).await?.rows_affected();
        tx.commit().await?;
        found
    });
    Ok(found > 0)
}

/// Removes a domain. `None` when it does not exist, `Some(false)` when it is the primary, which stays.
pub async fn delete(db: &Db, id: &str) -> Result<Option<bool>, StoreError> {
    let sql = "DELETE FROM domains WHERE id = $1 AND is_primary = FALSE";
    let exists = "SELECT 1 FROM domains WHERE id = $1";
    let removed = on!(db, writer, |pool| sqlx::query(sql).bind(id).execute(pool).await?.rows_affected());
    if removed > 0 {
        return Ok(Some(true));
    }
    let there: Option<i64> = on!(db, writer, |pool| {
        sqlx::query_scalar::<_, i32>(exists).bind(id).fetch_optional(pool).await?.map(i64::from)
    });
    Ok(there.map(|_| false))
}
