//! Stores delegates: the users that may write to a shared account, per API client.

use belvedere_base::clock::Timestamp;

use super::{Db, StoreError, on};

#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct DelegateRow {
    pub account_did: String,
    pub user_did: String,
    /// `owner`, `admin` or `member`.
    pub role: String,
    pub granted_by: String,
    pub created_at: Timestamp,
}

/// Adds a delegate. [`StoreError::Conflict`] when the user is a delegate already, or when the new delegate is an owner
/// and the account has one.
pub async fn add(db: &Db, client_id: &str, delegate: &DelegateRow) -> Result<(), StoreError> {
    let sql = "INSERT INTO account_delegates (client_id, account_did, user_did, role, granted_by, created_at) \
               VALUES ($1, $2, $3, $4, $5, $6)";
    on!(db, writer, |pool| {
        sqlx::query(sql)
            .bind(client_id)
            .bind(&delegate.account_did)
            .bind(&delegate.user_did)
            .bind(&delegate.role)
            .bind(&delegate.granted_by)
            .bind(delegate.created_at)
            .execute(pool)
            .await
            .map(drop)
    })?;
    Ok(())
}

/// The delegates of an account, oldest first; the first is its owner.
pub async fn of_account(db: &Db, client_id: &str, account: &str) -> Result<Vec<DelegateRow>, StoreError> {
    let sql = "SELECT account_did, user_did, role, granted_by, created_at FROM account_delegates \
               WHERE client_id = $1 AND account_did = $2 ORDER BY created_at, user_did";
    Ok(on!(db, reader, |pool| sqlx::query_as(sql).bind(client_id).bind(account).fetch_all(pool).await)?)
}

/// The accounts that a user may write to, oldest delegation first.
pub async fn of_user(db: &Db, client_id: &str, user: &str) -> Result<Vec<DelegateRow>, StoreError> {
    let sql = "SELECT account_did, user_did, role, granted_by, created_at FROM account_delegates \
               WHERE client_id = $1 AND user_did = $2 ORDER BY created_at, account_did";
    Ok(on!(db, reader, |pool| sqlx::query_as(sql).bind(client_id).bind(user).fetch_all(pool).await)?)
}

/// Whether an account is linked under any client but this one.
pub async fn linked_elsewhere(db: &Db, client_id: &str, account: &str) -> Result<bool, StoreError> {
    let sql = "SELECT count(*) FROM account_delegates WHERE client_id <> $1 AND account_did = $2";
    let count: i64 = on!(db, reader, |pool| {
        sqlx::query_scalar(sql).bind(client_id).bind(account).fetch_one(pool).await
    })?;
    Ok(count > 0)
}

/// Removes a delegate; `false` when the user is not a delegate.
pub async fn remove(db: &Db, client_id: &str, account: &str, user: &str) -> Result<bool, StoreError> {
    let sql = "DELETE FROM account_delegates WHERE client_id = $1 AND account_did = $2 AND user_did = $3";
    let removed = on!(db, writer, |pool| {
        sqlx::query(sql).bind(client_id).bind(account).bind(user).execute(pool).await?.rows_affected()
    });
    Ok(removed > 0)
}

/// Removes an account with all of its delegates.
pub async fn unlink(db: &Db, client_id: &str, account: &str) -> Result<(), StoreError> {
    let sql = "DELETE FROM account_delegates WHERE client_id = $1 AND account_did = $2";
    on!(db, writer, |pool| sqlx::query(sql).bind(client_id).bind(account).execute(pool).await.map(drop))?;
    Ok(())
}
