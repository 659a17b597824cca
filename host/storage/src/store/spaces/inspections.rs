//! Grants to operators who inspect the records of a space or of an account for a limited time. The event log has what they
//! read; the grants stay as they are, also when the space is deleted.

use belvedere_base::clock::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use super::super::text_enum::text_enum;
use super::super::{Db, StoreError, on, only_row};

text_enum! {
    /// The kind of subject of a grant.
    pub enum Scope {
        /// The records of a space; the subject is its address.
        Space = "space",
        /// The records of an account in all spaces; the subject is its DID.
        Account = "account",
    }
}

/// A grant.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow, Serialize, JsonSchema)]
#[schemars(rename = "SpaceInspection")]
pub struct InspectionRow {
    pub id: String,
    pub scope: Scope,
    /// The address of a space, or the DID of an account.
    pub subject: String,
    /// The DID of the operator who may read.
    pub operator: String,
    pub reason: String,
    pub granted_by: String,
    pub created_at: Timestamp,
    pub expires_at: Timestamp,
    pub revoked_at: Option<Timestamp>,
}

macro_rules! select {
    ($tail:literal) => {
        concat!(
            "SELECT id, scope, subject, operator, reason, granted_by, created_at, expires_at, revoked_at \
             FROM space_inspections ",
            $tail
        )
    };
}

/// Stores a grant, which is not revoked.
pub async fn grant(db: &Db, grant: &InspectionRow) -> Result<(), StoreError> {
    let sql = "INSERT INTO space_inspections (id, scope, subject, operator, reason, granted_by, created_at, expires_at) \
               VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";
    on!(db, writer, |pool| {
        sqlx::query(sql)
            .bind(&grant.id)
            .bind(grant.scope)
            .bind(&grant.subject)
            .bind(&grant.operator)
            .bind(&grant.reason)
            .bind(&grant.granted_by)
            .bind(grant.created_at)
            .bind(grant.expires_at)
            .execute(pool)
            .await
            .map(drop)
    })?;
    Ok(())
}

/// The grant in force by which an operator may read a subject; the one that lasts longest.
pub async fn in_force(
    db: &Db,
    operator: &str,
    scope: Scope,
    subject: &str,
    now: Timestamp,
) -> Result<Option<InspectionRow>, StoreError> {
    let sql = select!(
        "WHERE operator = $1 AND scope = $2 AND subject = $3 AND revoked_at IS NULL AND expires_at > $4 \
         ORDER BY expires_at DESC, id LIMIT 1"
    );
    Ok(on!(db, reader, |pool| {
        sqlx::query_as(sql).bind(operator).bind(scope).bind(subject).bind(now).fetch_optional(pool).await
    })?)
}

/// Revokes a grant, also again. Returns it as it is then; `None` when there is no such grant.
pub async fn revoke(db: &Db, id: &str, now: Timestamp) -> Result<Option<InspectionRow>, StoreError> {
    let sql = "UPDATE space_inspections SET revoked_at = coalesce(revoked_at, $2) WHERE id = $1 \
               RETURNING id, scope, subject, operator, reason, granted_by, created_at, expires_at, revoked_at";
    Ok(only_row(on!(db, writer, |pool| sqlx::query_as(sql).bind(id).bind(now).fetch_all(pool).await)?))
}

/// A page of all grants, newest first. `before`: the last one of the page before.
pub async fn page(
    db: &Db,
    before: Option<(Timestamp, &str)>,
    limit: u32,
) -> Result<Vec<InspectionRow>, StoreError> {
    let sql = select!("WHERE (created_at, id) < ($1, $2) ORDER BY created_at DESC, id DESC LIMIT $3");
    let (before, id) = before.unwrap_or((Timestamp(i64::MAX), ""));
    Ok(on!(db, reader, |pool| {
        sqlx::query_as(sql).bind(before).bind(id).bind(i64::from(limit)).fetch_all(pool).await
    })?)
}
