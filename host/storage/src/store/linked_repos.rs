//! Stores linked repos, to which their owners let the instance write, and the invites to link one.

use belvedere_base::clock::Timestamp;

use super::types::{JsonText, to_json_text};
use super::{Db, StoreError, on};

#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct GrantRow {
    pub id: String,
    /// `None`: an open grant that no account has authorized yet.
    pub did: Option<String>,
    /// The handle that the grant was created for.
    pub handle: Option<String>,
    pub reason: Option<String>,
    /// Space-separated.
    pub scopes: String,
    /// Triggers whose scripts may use the grant. Empty: every script, except those of queries without a caller.
    #[sqlx(try_from = "JsonText<Vec<String>>")]
    pub scripts: Vec<String>,
    /// `pending`, `active` or `needs_reauth`.
    pub status: String,
    pub last_error: Option<String>,
    pub session_id: Option<String>,
    pub last_refreshed_at: Option<Timestamp>,
    pub authorized_at: Option<Timestamp>,
    pub created_by: String,
    pub created_at: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct InviteRow {
    /// SHA-256 hex of the token.
    pub id: String,
    pub grant_id: String,
    pub expires_at: Timestamp,
}

macro_rules! select {
    ($tail:literal) => {
        concat!(
            "SELECT id, did, handle, reason, scopes, scripts, status, last_error, session_id, last_refreshed_at, \
                 authorized_at, created_by, created_at FROM linked_repos ",
            $tail
        )
    };
}

/// Creates a grant. [`StoreError::Conflict`] when the account has one already.
pub async fn create(db: &Db, grant: &GrantRow) -> Result<(), StoreError> {
    let sql = "INSERT INTO linked_repos (id, did, handle, reason, scopes, scripts, status, created_by, created_at) \
               VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)";
    on!(db, writer, |pool| {
        sqlx::query(sql)
            .bind(&grant.id)
            .bind(&grant.did)
            .bind(&grant.handle)
            .bind(&grant.reason)
            .bind(&grant.scopes)
            .bind(to_json_text(&grant.scripts))
            .bind(&grant.status)
            .bind(&grant.created_by)
            .bind(grant.created_at)
            .execute(pool)
            .await
            .map(drop)
    })?;
    Ok(())
}

/// Newest first.
pub async fn list(db: &Db) -> Result<Vec<GrantRow>, StoreError> {
    let sql = select!("ORDER BY created_at DESC, id DESC");
    Ok(on!(db, reader, |pool| sqlx::query_as(sql).fetch_all(pool).await)?)
}

pub async fn get(db: &Db, id: &str) -> Result<Option<GrantRow>, StoreError> {
    let sql = select!("WHERE id = $1");
    Ok(on!(db, reader, |pool| sqlx::query_as(sql).bind(id).fetch_optional(pool).await)?)
}

pub async fn of_account(db: &Db, did: &str) -> Result<Option<GrantRow>, StoreError> {
    let sql = select!("WHERE did = $1");
    Ok(on!(db, reader, |pool| sqlx::query_as(sql).bind(did).fetch_optional(pool).await)?)
}

/// Binds a grant to the account that authorized it, and removes its invites. `false` when the grant does not exist or
/// is bound to another account. [`StoreError::Conflict`] when the account has another grant.
pub async fn authorize(
    db: &Db,
    id: &str,
    did: &str,
    session_id: &str,
    now: Timestamp,
) -> Result<bool, StoreError> {
    let bind = "UPDATE linked_repos SET did = $2, session_id = $3, status = 'active', last_error = NULL, \
                    authorized_at = $4, last_refreshed_at = $4 WHERE id = $1 AND (did IS NULL OR did = $2)";
    let invites = "DELETE FROM linked_repo_invites WHERE grant_id = $1";
    Ok(on!(db, writer, |pool| {
        let mut tx = pool.begin().await?;
        let query = sqlx::query(bind).bind(id).bind(did).bind(session_id).bind(now);
        let bound = query.execute(&mut *tx).await?.rows_affected() > 0;
        if bound {
            sqlx::query(invites).bind(id).execute(&mut *tx).await?;
        }
        tx.commit().await?;
        bound
    }))
}

/// Marks a grant as `needs_reauth`, unless its session was replaced meanwhile.
pub async fn mark_needs_reauth(
    db: &Db,
    id: &str,
    session_id: Option<&str>,
    why: &str,
) -> Result<(), StoreError> {
    let sql = "UPDATE linked_repos SET status = 'needs_reauth', last_error = $3 \
               WHERE id = $1 AND status = 'active' AND (session_id IS NULL OR session_id = $2)";
    on!(db, writer, |pool| {
        sqlx::query(sql).bind(id).bind(session_id).bind(why).execute(pool).await.map(drop)
    })?;
    Ok(())
}

/// Marks the grants whose sessions began with one of the instance's keys as `needs_reauth`.
pub async fn mark_needs_reauth_of_key(db: &Db, kid: &str, why: &str) -> Result<(), StoreError> {
    let sql = "UPDATE linked_repos SET status = 'needs_reauth', last_error = $2 WHERE status = 'active' \
               AND session_id IN (SELECT id FROM oauth_sessions WHERE client_id IS NULL AND assertion_kid = $1)";
    on!(db, writer, |pool| sqlx::query(sql).bind(kid).bind(why).execute(pool).await.map(drop))?;
    Ok(())
}

pub async fn mark_refreshed(db: &Db, id: &str, now: Timestamp) -> Result<(), StoreError> {
    let sql = "UPDATE linked_repos SET last_refreshed_at = $2, last_error = NULL WHERE id = $1 AND status = 'active'";
    on!(db, writer, |pool| sqlx::query(sql).bind(id).bind(now).execute(pool).await.map(drop))?;
    Ok(())
}

/// Active grants that were not refreshed since `before`.
pub async fn idle(db: &Db, before: Timestamp) -> Result<Vec<GrantRow>, StoreError> {
    let sql = select!("WHERE status = 'active' AND last_refreshed_at < $1 ORDER BY last_refreshed_at");
    Ok(on!(db, reader, |pool| sqlx::query_as(sql).bind(before).fetch_all(pool).await)?)
}

/// `false` when the grant does not exist.
pub async fn set_scripts(db: &Db, id: &str, scripts: &[String]) -> Result<bool, StoreError> {
    let sql = "UPDATE linked_repos SET scripts = $2 WHERE id = $1";
    let scripts = to_json_text(scripts);
    Ok(on!(db, writer, |pool| {
        sqlx::query(sql).bind(id).bind(&scripts).execute(pool).await?.rows_affected() > 0
    }))
}

/// Removes a grant, its invites and its session. `false` when the grant does not exist.
pub async fn delete(db: &Db, id: &str) -> Result<bool, StoreError> {
    let session = "DELETE FROM dpop_keys WHERE id IN (SELECT s.key_id FROM oauth_sessions s \
                   JOIN linked_repos l ON l.session_id = s.id WHERE l.id = $1)";
    let grant = "DELETE FROM linked_repos WHERE id = $1";
    Ok(on!(db, writer, |pool| {
        let mut tx = pool.begin().await?;
        sqlx::query(session).bind(id).execute(&mut *tx).await?;
        let removed = sqlx::query(grant).bind(id).execute(&mut *tx).await?.rows_affected() > 0;
        tx.commit().await?;
        removed
    }))
}

pub async fn invite(db: &Db, invite: &InviteRow) -> Result<(), StoreError> {
    let sql = "INSERT INTO linked_repo_invites (id, grant_id, expires_at) VALUES ($1, $2, $3)";
    on!(db, writer, |pool| {
        sqlx::query(sql)
            .bind(&invite.id)
            .bind(&invite.grant_id)
            .bind(invite.expires_at)
            .execute(pool)
            .await
            .map(drop)
    })?;
    Ok(())
}

/// The valid invites of a grant, soonest expiry first.
pub async fn invites(db: &Db, grant_id: &str, now: Timestamp) -> Result<Vec<InviteRow>, StoreError> {
    let sql = "SELECT id, grant_id, expires_at FROM linked_repo_invites \
               WHERE grant_id = $1 AND expires_at > $2 ORDER BY expires_at, id";
    Ok(on!(db, reader, |pool| sqlx::query_as(sql).bind(grant_id).bind(now).fetch_all(pool).await)?)
}

/// An invite, if it has not expired.
pub async fn get_invite(db: &Db, id: &str, now: Timestamp) -> Result<Option<InviteRow>, StoreError> {
    let sql = "SELECT id, grant_id, expires_at FROM linked_repo_invites WHERE id = $1 AND expires_at > $2";
    Ok(on!(db, reader, |pool| sqlx::query_as(sql).bind(id).bind(now).fetch_optional(pool).await)?)
}

/// `false` when the grant has no such valid invite.
pub async fn revoke_invite(db: &Db, grant_id: &str, id: &str, now: Timestamp) -> Result<bool, StoreError> {
    let sql = "DELETE FROM linked_repo_invites WHERE grant_id = $1 AND id = $2 AND expires_at > $3";
    Ok(on!(db, writer, |pool| {
        sqlx::query(sql).bind(grant_id).bind(id).bind(now).execute(pool).await?.rows_affected() > 0
    }))
}

/// Removes expired invites. Returns how many.
pub async fn prune_invites(db: &Db, now: Timestamp) -> Result<u64, StoreError> {
    let sql = "DELETE FROM linked_repo_invites WHERE expires_at <= $1";
    Ok(on!(db, writer, |pool| sqlx::query(sql).bind(now).execute(pool).await?.rows_affected()))
}
