//! Stores admin users and their permissions.

use schemars::JsonSchema;
use serde::Serialize;

use belvedere_base::clock::Timestamp;

use super::types::to_json_text;
use super::{Db, StoreError, on};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "User")]
pub struct UserRow {
    pub id: String,
    #[schemars(extend("format" = "did"))]
    pub did: String,
    pub is_super: bool,
    /// Permission names, sorted.
    pub permissions: Vec<String>,
    pub created_at: Timestamp,
    pub last_used_at: Option<Timestamp>,
}

/// A user joined with one of its permissions.
#[derive(sqlx::FromRow)]
struct UserPermission {
    id: String,
    did: String,
    is_super: bool,
    created_at: Timestamp,
    last_used_at: Option<Timestamp>,
    permission: Option<String>,
}

macro_rules! select {
    ($tail:literal) => {
        concat!(
            "SELECT u.id, u.did, u.is_super, u.created_at, u.last_used_at, p.permission FROM users u \
                 LEFT JOIN user_permissions p ON p.user_id = u.id ",
            $tail,
            " ORDER BY u.created_at, u.id, p.permission"
        )
    };
}

/// Groups rows by user. The rows of one user must be adjacent.
fn group_by_user(rows: Vec<UserPermission>) -> Vec<UserRow> {
    let mut users: Vec<UserRow> = Vec::new();
    for row in rows {
        if users.last().is_none_or(|last| last.id != row.id) {
            users.push(UserRow {
                id: row.id,
                did: row.did,
                is_super: row.is_super,
                permissions: Vec::new(),
                created_at: row.created_at,
                last_used_at: row.last_used_at,
            });
        }
        if let (Some(user), Some(permission)) = (users.last_mut(), row.permission) {
            user.permissions.push(permission);
        }
    }
    users
}

const GRANT: &str =
    "INSERT INTO user_permissions (user_id, permission) VALUES ($1, $2) ON CONFLICT DO NOTHING";

/// Creates the first user as super user; `false` when any user exists. Exactly one of two concurrent calls succeeds.
pub async fn bootstrap(
    db: &Db,
    id: &str,
    did: &str,
    permissions: &[&str],
    now: Timestamp,
) -> Result<bool, StoreError> {
    // On PostgreSQL two callers may both see no user; the unique index that allows one super user then rejects one of
    // them.
    let sql = "INSERT INTO users (id, did, is_super, created_at) SELECT $1, $2, TRUE, $3 \
               WHERE NOT EXISTS (SELECT 1 FROM users) ON CONFLICT DO NOTHING";
    on!(db, writer, |pool| {
        let mut tx = pool.begin().await?;
        let created =
            sqlx::query(sql).bind(id).bind(did).bind(now).execute(&mut *tx).await?.rows_affected() == 1;
        if created {
            for permission in permissions {
                sqlx::query(GRANT).bind(id).bind(*permission).execute(&mut *tx).await?;
            }
        }
        tx.commit().await?;
        Ok(created)
    })
}

pub async fn get_by_did(db: &Db, did: &str) -> Result<Option<UserRow>, StoreError> {
    let sql = select!("WHERE u.did = $1");
    let rows = on!(db, reader, |pool| sqlx::query_as(sql).bind(did).fetch_all(pool).await)?;
    Ok(group_by_user(rows).pop())
}

pub async fn get(db: &Db, id: &str) -> Result<Option<UserRow>, StoreError> {
    let sql = select!("WHERE u.id = $1");
    let rows = on!(db, reader, |pool| sqlx::query_as(sql).bind(id).fetch_all(pool).await)?;
    Ok(group_by_user(rows).pop())
}

/// Oldest first.
pub async fn list(db: &Db) -> Result<Vec<UserRow>, StoreError> {
    let sql = select!("");
    let rows = on!(db, reader, |pool| sqlx::query_as(sql).fetch_all(pool).await)?;
    Ok(group_by_user(rows))
}

/// The DIDs among `dids` that are admin users.
pub async fn among(db: &Db, dids: &[&str]) -> Result<Vec<String>, StoreError> {
    let found = match db {
        Db::Sqlite(db) => {
            let sql = "SELECT u.did FROM json_each($1) v CROSS JOIN users u WHERE u.did = v.value";
            sqlx::query_scalar(sql).bind(to_json_text(dids)).fetch_all(&db.reader).await?
        }
        Db::Postgres(db) => {
            let sql = "SELECT did FROM users WHERE did = ANY($1)";
            sqlx::query_scalar(sql).bind(dids).fetch_all(db.reader()).await?
        }
    };
    Ok(found)
}

/// Sets `last_used_at`.
pub async fn touch(db: &Db, id: &str, now: Timestamp) -> Result<(), StoreError> {
    let sql = "UPDATE users SET last_used_at = $2 WHERE id = $1";
    on!(db, writer, |pool| sqlx::query(sql).bind(id).bind(now).execute(pool).await.map(drop))?;
    Ok(())
}

/// Creates an ordinary user. [`StoreError::Conflict`] when the DID is a user already.
pub async fn create(
    db: &Db,
    id: &str,
    did: &str,
    permissions: &[&str],
    now: Timestamp,
) -> Result<UserRow, StoreError> {
    let sql = "INSERT INTO users (id, did, is_super, created_at) VALUES ($1, $2, FALSE, $3)";
    on!(db, writer, |pool| {
        let mut tx = pool.begin().await?;
        sqlx::query(sql).bind(id).bind(did).bind(now).execute(&mut *tx).await?;
        for permission in permissions {
            sqlx::query(GRANT).bind(id).bind(*permission).execute(&mut *tx).await?;
        }
        tx.commit().await?;
    });
    let mut permissions: Vec<String> = permissions.iter().map(|&p| p.to_owned()).collect();
    permissions.sort_unstable();
    permissions.dedup();
    Ok(UserRow {
        id: id.to_owned(),
        did: did.to_owned(),
        is_super: false,
        permissions,
        created_at: now,
        last_used_at: None,
    })
}

/// Grants, then revokes permissions. `None` when the user does not exist or is the super user.
pub async fn set_permissions(
    db: &Db,
    id: &str,
    grant: &[&str],
    revoke: &[&str],
) -> Result<Option<UserRow>, StoreError> {
    // Locks the user's row against a concurrent transfer of the super flag or a deletion.
    let lock = "UPDATE users SET did = did WHERE id = $1 AND is_super = FALSE";
    let revoke_sql = "DELETE FROM user_permissions WHERE user_id = $1 AND permission = $2";
    let select = select!("WHERE u.id = $1");
    on!(db, writer, |pool| {
        let mut tx = pool.begin().await?;
        if sqlx::query(lock).bind(id).execute(&mut *tx).await?.rows_affected() == 0 {
            return Ok(None);
        }
        for (sql, permissions) in [(GRANT, grant), (revoke_sql, revoke)] {
            for permission in permissions {
                sqlx::query(sql).bind(id).bind(*permission).execute(&mut *tx).await?;
            }
        }
        let rows = sqlx::query_as(select).bind(id).fetch_all(&mut *tx).await?;
        tx.commit().await?;
        Ok(group_by_user(rows).pop())
    })
}

/// The result of an attempt to delete a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deletion<E> {
    /// With the ids of the OAuth sessions behind the user's browser sessions.
    Deleted(Vec<String>),
    /// The check failed.
    Refused(E),
    /// The super user can't be deleted.
    Super,
    /// There is no such user.
    Missing,
}

/// Removes a user with its permissions and browser sessions, and revokes its API keys, if `check` accepts the user. The user's
/// row is locked meanwhile, so that no permission is granted between the check and the deletion.
pub async fn delete<E>(
    db: &Db,
    id: &str,
    now: Timestamp,
    check: impl FnOnce(&UserRow) -> Result<(), E>,
) -> Result<Deletion<E>, StoreError> {
    let lock = "UPDATE users SET did = did WHERE id = $1";
    let select = select!("WHERE u.id = $1");
    let browsers = "DELETE FROM web_sessions WHERE did IN (SELECT did FROM users WHERE id = $1) \
                    RETURNING oauth_session_id";
    let remove = "DELETE FROM users WHERE id = $1 AND is_super = FALSE";
    let keys = "UPDATE api_keys SET revoked_at = $2 WHERE user_id = $1 AND revoked_at IS NULL";
    on!(db, writer, |pool| {
        let mut tx = pool.begin().await?;
        sqlx::query(lock).bind(id).execute(&mut *tx).await?;
        let rows = sqlx::query_as(select).bind(id).fetch_all(&mut *tx).await?;
        let Some(user) = group_by_user(rows).pop() else { return Ok(Deletion::Missing) };
        if user.is_super {
            return Ok(Deletion::Super);
        }
        if let Err(refusal) = check(&user) {
            return Ok(Deletion::Refused(refusal));
        }
        let sessions: Vec<String> = sqlx::query_scalar(browsers).bind(id).fetch_all(&mut *tx).await?;
        sqlx::query(remove).bind(id).execute(&mut *tx).await?;
        sqlx::query(keys).bind(id).bind(now).execute(&mut *tx).await?;
        tx.commit().await?;
        Ok(Deletion::Deleted(sessions))
    })
}

/// Moves the super flag. `false` when `from` is not the super user or `to` does not exist; nothing is changed then.
pub async fn transfer_super(db: &Db, from: &str, to: &str) -> Result<bool, StoreError> {
    let take = "UPDATE users SET is_super = FALSE WHERE id = $1 AND is_super = TRUE";
    let give = "UPDATE users SET is_super = TRUE WHERE id = $1";
    on!(db, writer, |pool| {
        let mut tx = pool.begin().await?;
        for (sql, id) in [(take, from), (give, to)] {
            if sqlx::query(sql).bind(id).execute(&mut *tx).await?.rows_affected() == 0 {
                tx.rollback().await?;
                return Ok(false);
            }
        }
        tx.commit().await?;
        Ok(true)
    })
}
