//! Stores API clients, the applications that may call XRPC. A client may have children, but a child can't.

use belvedere_base::clock::Timestamp;

use super::revocations::{Window, enqueue};
use super::types::{JsonText, to_json_text};
use super::{Db, Patch, StoreError, on};

#[derive(Clone, Debug, PartialEq, sqlx::FromRow)]
pub struct ApiClientRow {
    pub id: String,
    pub client_key: String,
    /// SHA-256 hex; `None` for public clients.
    pub client_secret_hash: Option<String>,
    pub name: String,
    pub client_id_url: String,
    pub client_uri: String,
    #[sqlx(try_from = "JsonText<Vec<String>>")]
    pub redirect_uris: Vec<String>,
    /// `confidential` or `public`.
    pub client_type: String,
    /// Space-separated.
    pub scopes: String,
    #[sqlx(try_from = "JsonText<Vec<String>>")]
    pub allowed_origins: Vec<String>,
    /// `None`: the instance default.
    pub rate_limit_capacity: Option<i64>,
    /// Tokens per second; `None`: the instance default.
    pub rate_limit_refill_rate: Option<f64>,
    pub is_active: bool,
    /// DID of the user that created it.
    pub created_by: String,
    pub parent_client_id: Option<String>,
    pub owner_did: Option<String>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// The last call of a method, to the minute.
    pub last_used_at: Option<Timestamp>,
}

/// A partial update: fields that are `None` or [`Patch::Keep`] stay unchanged.
#[derive(Clone, Debug, Default)]
pub struct ApiClientPatch {
    pub name: Option<String>,
    pub client_uri: Option<String>,
    pub redirect_uris: Option<Vec<String>>,
    pub scopes: Option<String>,
    pub allowed_origins: Patch<Vec<String>>,
    pub rate_limit_capacity: Patch<i64>,
    pub rate_limit_refill_rate: Patch<f64>,
    /// `false` also deactivates the children; `true` does not reactivate them.
    pub is_active: Option<bool>,
}

macro_rules! select {
    ($tail:literal) => {
        concat!(
            "SELECT id, client_key, client_secret_hash, name, client_id_url, client_uri, redirect_uris, \
                 client_type, scopes, allowed_origins, rate_limit_capacity, rate_limit_refill_rate, is_active, \
                 created_by, parent_client_id, owner_did, created_at, updated_at, last_used_at FROM api_clients ",
            $tail
        )
    };
}

/// Newest first; with `parent_id` the children of that client.
pub async fn list(db: &Db, parent_id: Option<&str>) -> Result<Vec<ApiClientRow>, StoreError> {
    let all = select!("ORDER BY created_at DESC, id DESC");
    let children = select!("WHERE parent_client_id = $1 ORDER BY created_at DESC, id DESC");
    Ok(on!(db, reader, |pool| match parent_id {
        None => sqlx::query_as(all).fetch_all(pool).await,
        Some(parent) => sqlx::query_as(children).bind(parent).fetch_all(pool).await,
    })?)
}

/// A client and its children. Empty when the client does not exist, because its children are deleted with it.
pub async fn with_children(db: &Db, id: &str) -> Result<Vec<ApiClientRow>, StoreError> {
    let sql = select!("WHERE id = $1 OR parent_client_id = $1");
    Ok(on!(db, reader, |pool| sqlx::query_as(sql).bind(id).fetch_all(pool).await)?)
}

/// Clients owned by a user (third-party management), newest first.
pub async fn list_owned(db: &Db, owner_did: &str) -> Result<Vec<ApiClientRow>, StoreError> {
    let sql = select!("WHERE owner_did = $1 ORDER BY created_at DESC, id DESC");
    Ok(on!(db, reader, |pool| sqlx::query_as(sql).bind(owner_did).fetch_all(pool).await)?)
}

pub async fn get(db: &Db, id: &str) -> Result<Option<ApiClientRow>, StoreError> {
    let sql = select!("WHERE id = $1");
    Ok(on!(db, reader, |pool| sqlx::query_as(sql).bind(id).fetch_optional(pool).await)?)
}

/// Limits on the number of clients.
#[derive(Clone, Copy, Debug)]
pub struct Caps {
    pub all: i64,
    pub of_parent: i64,
    pub of_owner: i64,
}

/// The result of [`create`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Created {
    Done,
    /// The instance has reached its limit.
    Full,
    /// The parent has reached its limit.
    ParentFull,
    /// The owner has reached its limit.
    OwnerFull,
}

/// Creates a client unless a cap is reached. Hosts that write at the same time may exceed a cap by one client each.
/// [`StoreError::Conflict`] when `client_id_url` (or the key) is taken.
pub async fn create(db: &Db, client: &ApiClientRow, caps: &Caps) -> Result<Created, StoreError> {
    let count = "SELECT (SELECT count(*) FROM api_clients), \
                 (SELECT count(*) FROM api_clients WHERE parent_client_id = $1), \
                 (SELECT count(*) FROM api_clients WHERE owner_did = $2)";
    let sql = "INSERT INTO api_clients (id, client_key, client_secret_hash, name, client_id_url, client_uri, \
                   redirect_uris, client_type, scopes, allowed_origins, rate_limit_capacity, \
                   rate_limit_refill_rate, is_active, created_by, parent_client_id, owner_did, created_at, \
                   updated_at) \
               VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18)";
    on!(db, writer, |pool| {
        let mut tx = pool.begin().await?;
        let (all, of_parent, of_owner): (i64, i64, i64) = sqlx::query_as(count)
            .bind(&client.parent_client_id)
            .bind(&client.owner_did)
            .fetch_one(&mut *tx)
            .await?;
        if of_owner >= caps.of_owner {
            return Ok(Created::OwnerFull);
        }
        if of_parent >= caps.of_parent {
            return Ok(Created::ParentFull);
        }
        if all >= caps.all {
            return Ok(Created::Full);
        }
        sqlx::query(sql)
            .bind(&client.id)
            .bind(&client.client_key)
            .bind(&client.client_secret_hash)
            .bind(&client.name)
            .bind(&client.client_id_url)
            .bind(&client.client_uri)
            .bind(to_json_text(&client.redirect_uris))
            .bind(&client.client_type)
            .bind(&client.scopes)
            .bind(to_json_text(&client.allowed_origins))
            .bind(client.rate_limit_capacity)
            .bind(client.rate_limit_refill_rate)
            .bind(client.is_active)
            .bind(&client.created_by)
            .bind(&client.parent_client_id)
            .bind(&client.owner_did)
            .bind(client.created_at)
            .bind(client.updated_at)
            .execute(&mut *tx)
            .await?;
        tx.commit().await?;
        Ok(Created::Done)
    })
}

/// Sets `last_used_at`.
pub async fn touch(db: &Db, id: &str, now: Timestamp) -> Result<(), StoreError> {
    let sql = "UPDATE api_clients SET last_used_at = $2 WHERE id = $1";
    on!(db, writer, |pool| sqlx::query(sql).bind(id).bind(now).execute(pool).await.map(drop))?;
    Ok(())
}

/// `None` when there is no such client.
pub async fn update(
    db: &Db,
    id: &str,
    patch: &ApiClientPatch,
    now: Timestamp,
) -> Result<Option<ApiClientRow>, StoreError> {
    // For values that can be cleared, a flag parameter says whether the update sets them.
    let sql = "UPDATE api_clients SET name = coalesce($2, name), client_uri = coalesce($3, client_uri), \
                   redirect_uris = coalesce($4, redirect_uris), scopes = coalesce($5, scopes), \
                   allowed_origins = coalesce($6, allowed_origins), \
                   rate_limit_capacity = CASE WHEN $7 THEN $8 ELSE rate_limit_capacity END, \
                   rate_limit_refill_rate = CASE WHEN $9 THEN $10 ELSE rate_limit_refill_rate END, \
                   is_active = coalesce($11, is_active), updated_at = $12 \
               WHERE id = $1";
    let children = "UPDATE api_clients SET is_active = FALSE, updated_at = $2 \
                    WHERE parent_client_id = $1 AND is_active = TRUE";
    let select = select!("WHERE id = $1");
    let origins = match &patch.allowed_origins {
        Patch::Keep => None,
        Patch::Clear => Some("[]".to_owned()),
        Patch::Set(list) => Some(to_json_text(list)),
    };
    on!(db, writer, |pool| {
        let mut tx = pool.begin().await?;
        sqlx::query(sql)
            .bind(id)
            .bind(&patch.name)
            .bind(&patch.client_uri)
            .bind(patch.redirect_uris.as_ref().map(|list| to_json_text(list)))
            .bind(&patch.scopes)
            .bind(&origins)
            .bind(patch.rate_limit_capacity.is_set())
            .bind(patch.rate_limit_capacity.value())
            .bind(patch.rate_limit_refill_rate.is_set())
            .bind(patch.rate_limit_refill_rate.value())
            .bind(patch.is_active)
            .bind(now)
            .execute(&mut *tx)
            .await?;
        if patch.is_active == Some(false) {
            sqlx::query(children).bind(id).bind(now).execute(&mut *tx).await?;
        }
        let row = sqlx::query_as(select).bind(id).fetch_optional(&mut *tx).await?;
        tx.commit().await?;
        Ok(row)
    })
}

/// Removes a client and its children, and queues the revocation of their sessions. Returns the client keys of all
/// removed clients; empty when the client does not exist.
pub async fn delete(db: &Db, id: &str, window: Window) -> Result<Vec<String>, StoreError> {
    let queue = enqueue!(
        "(s.client_id = $3 OR s.client_id IN (SELECT id FROM api_clients WHERE parent_client_id = $3))"
    );
    // The cascade of the foreign key would not return the keys of the children.
    let statements = [
        "DELETE FROM api_clients WHERE parent_client_id = $1 RETURNING client_key",
        "DELETE FROM api_clients WHERE id = $1 RETURNING client_key",
    ];
    on!(db, writer, |pool| {
        let mut tx = pool.begin().await?;
        let Window { due_at, give_up_at } = window;
        sqlx::query(queue).bind(due_at).bind(give_up_at).bind(id).execute(&mut *tx).await?;
        let mut keys: Vec<String> = Vec::new();
        for sql in statements {
            keys.extend(sqlx::query_scalar(sql).bind(id).fetch_all(&mut *tx).await?);
        }
        tx.commit().await?;
        Ok(keys)
    })
}
