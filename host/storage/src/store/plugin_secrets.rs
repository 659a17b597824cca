//! Stores the secrets that operators set for plugins. Values are sealed; this module never handles a plain value.

use belvedere_base::clock::Timestamp;

use super::{Db, StoreError, on};

#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct SecretRow {
    pub plugin_id: String,
    /// Without the prefix `PLUGIN_<ID>_`.
    pub key: String,
    pub sealed: Vec<u8>,
}

/// A secret of a set that replaces the stored one.
#[derive(Clone, Debug)]
pub enum NewSecret {
    /// The stored value stays.
    Keep(String),
    Set {
        key: String,
        sealed: Vec<u8>,
    },
}

impl NewSecret {
    fn key(&self) -> &str {
        match self {
            Self::Keep(key) | Self::Set { key, .. } => key,
        }
    }
}

/// The secrets of all plugins, also of those that are not installed any more.
pub async fn all(db: &Db) -> Result<Vec<SecretRow>, StoreError> {
    let sql = "SELECT plugin_id, key, sealed FROM plugin_secrets ORDER BY plugin_id, key";
    Ok(on!(db, reader, |pool| sqlx::query_as(sql).fetch_all(pool).await)?)
}

/// The secrets of a plugin, sorted by key.
pub async fn list(db: &Db, plugin: &str) -> Result<Vec<SecretRow>, StoreError> {
    let sql = "SELECT plugin_id, key, sealed FROM plugin_secrets WHERE plugin_id = $1 ORDER BY key";
    Ok(on!(db, reader, |pool| sqlx::query_as(sql).bind(plugin).fetch_all(pool).await)?)
}

/// Replaces the secrets of a plugin: those that the new set lacks are removed. Returns the first key that should be kept
/// and is not stored; then nothing is changed.
pub async fn replace(
    db: &Db,
    plugin: &str,
    secrets: &[NewSecret],
    now: Timestamp,
) -> Result<Option<String>, StoreError> {
    let stored = "SELECT key FROM plugin_secrets WHERE plugin_id = $1";
    let delete = "DELETE FROM plugin_secrets WHERE plugin_id = $1 AND key = $2";
    let put = "INSERT INTO plugin_secrets (plugin_id, key, sealed, updated_at) VALUES ($1, $2, $3, $4) \
               ON CONFLICT (plugin_id, key) DO UPDATE SET sealed = excluded.sealed, updated_at = excluded.updated_at";
    on!(db, writer, |pool| {
        let mut tx = pool.begin().await?;
        let stored: Vec<String> = sqlx::query_scalar(stored).bind(plugin).fetch_all(&mut *tx).await?;
        for secret in secrets {
            match secret {
                NewSecret::Keep(key) if !stored.contains(key) => return Ok(Some(key.clone())),
                NewSecret::Keep(_) => {}
                NewSecret::Set { key, sealed } => {
                    let put = sqlx::query(put).bind(plugin).bind(key).bind(sealed).bind(now);
                    put.execute(&mut *tx).await?;
                }
            }
        }
        for key in stored.iter().filter(|key| secrets.iter().all(|secret| secret.key() != *key)) {
            sqlx::query(delete).bind(plugin).bind(key).execute(&mut *tx).await?;
        }
        tx.commit().await?;
        Ok(None)
    })
}
