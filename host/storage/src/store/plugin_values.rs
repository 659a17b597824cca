//! Stores the values that plugins keep. The size of one owner's values is bounded here, also when several calls write
//! at once.

use belvedere_base::clock::Timestamp;

use super::{Db, StoreError, on, only_row};

/// The kinds of owners of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// One sign-in; the owner is the SHA-256 hex of its state.
    Flow,
    /// A linked account; the owner is the user's DID.
    Account,
    /// The plugin; the owner is empty.
    Plugin,
}

/// Names a value.
#[derive(Clone, Copy, Debug)]
pub struct ValueKey<'a> {
    pub plugin: &'a str,
    pub scope: Scope,
    pub owner: &'a str,
    pub key: &'a str,
}

/// The most that one owner may have at one plugin.
#[derive(Clone, Copy, Debug)]
pub struct Quota {
    /// The bytes of keys and values.
    pub bytes: i64,
    pub keys: i64,
}

/// The time at which a value expires.
#[derive(Clone, Copy, Debug)]
pub struct Expiry {
    pub linked: Option<Timestamp>,
    /// For a value of scope `account` whose owner has linked no account of the plugin.
    pub unlinked: Timestamp,
}

impl Scope {
    fn as_str(self) -> &'static str {
        match self {
            Self::Flow => "flow",
            Self::Account => "account",
            Self::Plugin => "plugin",
        }
    }
}

/// A value that has not expired.
pub async fn get(db: &Db, key: &ValueKey<'_>, now: Timestamp) -> Result<Option<Vec<u8>>, StoreError> {
    let sql = "SELECT value FROM plugin_values WHERE plugin_id = $1 AND scope = $2 AND owner = $3 AND key = $4 \
               AND (expires_at IS NULL OR expires_at > $5)";
    Ok(on!(db, reader, |pool| {
        sqlx::query_scalar(sql)
            .bind(key.plugin)
            .bind(key.scope.as_str())
            .bind(key.owner)
            .bind(key.key)
            .bind(now)
            .fetch_optional(pool)
            .await
    })?)
}

/// Stores a value, or replaces it; `false` when the owner would have more than its quota.
pub async fn set(
    db: &Db,
    key: &ValueKey<'_>,
    value: &[u8],
    expiry: Expiry,
    quota: Quota,
    now: Timestamp,
) -> Result<bool, StoreError> {
    let expired =
        "DELETE FROM plugin_values WHERE plugin_id = $1 AND scope = $2 AND owner = $3 AND expires_at <= $4";
    let insert = "INSERT INTO plugin_values (plugin_id, scope, owner, key, value, expires_at) \
                  SELECT $1, $2, $3, $4, $5, \
                      CASE WHEN $2 <> 'account' OR EXISTS (SELECT 1 FROM external_accounts \
                          WHERE did = $3 AND plugin_id = $1 AND status <> 'unlinking') THEN $6 ELSE $9 END \
                  WHERE (SELECT count(*) < $7 AND coalesce(sum(octet_length(key) + octet_length(value)), 0) <= $8 \
                      FROM plugin_values WHERE plugin_id = $1 AND scope = $2 AND owner = $3 AND key <> $4) \
                  ON CONFLICT (plugin_id, scope, owner, key) \
                      DO UPDATE SET value = excluded.value, expires_at = excluded.expires_at";
    // The bytes that the other values may have.
    let bytes = quota.bytes - (key.key.len() + value.len()) as i64;
    macro_rules! write {
        ($tx:expr) => {{
            sqlx::query(expired)
                .bind(key.plugin)
                .bind(key.scope.as_str())
                .bind(key.owner)
                .bind(now)
                .execute(&mut *$tx)
                .await?;
            let stored = sqlx::query(insert)
                .bind(key.plugin)
                .bind(key.scope.as_str())
                .bind(key.owner)
                .bind(key.key)
                .bind(value)
                .bind(expiry.linked)
                .bind(quota.keys)
                .bind(bytes)
                .bind(expiry.unlinked)
                .execute(&mut *$tx)
                .await?;
            $tx.commit().await?;
            stored.rows_affected() > 0
        }};
    }
    Ok(match db {
        // SQLite has one writer.
        Db::Sqlite(db) => {
            let mut tx = db.writer.begin().await?;
            write!(tx)
        }
        Db::Postgres(db) => {
            let mut tx = db.writer().begin().await?;
            // Writes of one owner come one after the other, so that each counts those before it.
            let lock = "SELECT pg_advisory_xact_lock(hashtextextended($1, 0))";
            let owner = format!("plugin_values {} {} {}", key.plugin, key.scope.as_str(), key.owner);
            sqlx::query(lock).bind(owner).execute(&mut *tx).await?;
            write!(tx)
        }
    })
}

/// Removes a value. `false` when there was none, or it had expired.
pub async fn delete(db: &Db, key: &ValueKey<'_>, now: Timestamp) -> Result<bool, StoreError> {
    let sql = "DELETE FROM plugin_values WHERE plugin_id = $1 AND scope = $2 AND owner = $3 AND key = $4 \
               RETURNING expires_at IS NULL OR expires_at > $5";
    let rows: Vec<bool> = on!(db, writer, |pool| {
        sqlx::query_scalar(sql)
            .bind(key.plugin)
            .bind(key.scope.as_str())
            .bind(key.owner)
            .bind(key.key)
            .bind(now)
            .fetch_all(pool)
            .await?
    });
    Ok(only_row(rows).unwrap_or(false))
}

/// Removes all values of an owner at a plugin: a sign-in has ended, or an account was unlinked.
pub async fn remove_owner(db: &Db, plugin: &str, scope: Scope, owner: &str) -> Result<u64, StoreError> {
    let sql = "DELETE FROM plugin_values WHERE plugin_id = $1 AND scope = $2 AND owner = $3";
    Ok(on!(db, writer, |pool| {
        sqlx::query(sql).bind(plugin).bind(scope.as_str()).bind(owner).execute(pool).await?.rows_affected()
    }))
}

/// Removes expired values. Returns how many.
pub async fn prune(db: &Db, now: Timestamp) -> Result<u64, StoreError> {
    let sql = "DELETE FROM plugin_values WHERE expires_at <= $1";
    Ok(on!(db, writer, |pool| sqlx::query(sql).bind(now).execute(pool).await?.rows_affected()))
}
