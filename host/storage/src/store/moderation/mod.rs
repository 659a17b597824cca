//! Stores which records and accounts an operator has hidden or taken down here, and the history of that (ADR 127).
//!
//! A moderated record is moved out of the index ([`records::hidden`](super::records::hidden)). A moderated account is hidden
//! as one that its PDS has deactivated; what the network says of it is kept beside and counts again when the decision is lifted.

mod apply;

use std::collections::HashMap;

use schemars::JsonSchema;
use serde::Serialize;
use sqlx::AssertSqlSafe;

pub use apply::{Lifted, Moderated, lift, moderate};

use super::text_enum::text_enum;
use super::types::to_json_text;
use super::{Backend, Db, StoreError, on};
use belvedere_base::clock::Timestamp;
use belvedere_protocol::atproto::{Did, RecordUri};

text_enum! {
    /// The effect of a decision.
    pub enum Action {
        /// It is left out of lists, joins, counts and searches; a record still answers at its URI.
        Hide = "hide",
        /// It is left out of all answers, except to operators.
        Takedown = "takedown",
    }
}

/// A record or an account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    Record(RecordUri),
    Account(Did),
}

impl Subject {
    /// Reads an AT URI of a record, or a DID.
    pub fn parse(text: &str) -> Option<Self> {
        if text.starts_with("at://") {
            return RecordUri::parse(text).ok().map(Self::Record);
        }
        Did::try_from(text).ok().map(Self::Account)
    }

    pub fn did(&self) -> &Did {
        match self {
            Self::Record(uri) => &uri.did,
            Self::Account(did) => did,
        }
    }
}

impl std::fmt::Display for Subject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Record(uri) => write!(f, "{uri}"),
            Self::Account(did) => f.write_str(did.as_str()),
        }
    }
}

/// A decision to make.
#[derive(Clone, Debug)]
pub struct Decision {
    pub subject: Subject,
    pub action: Action,
    pub reason: String,
    /// The DID of the operator, or the trigger of a script.
    pub by: String,
    /// `None`: it stays until it is lifted.
    pub expires_at: Option<Timestamp>,
    /// The decision of another author that it may replace.
    pub replaces: Option<i64>,
}

impl Decision {
    /// Whether it may take the place of a decision in force: of its own author, the one that it names, the same, or one whose time
    /// is over and that was not lifted yet.
    pub fn may_replace(&self, row: &ModerationRow, now: Timestamp) -> bool {
        let is_over = row.expires_at.is_some_and(|time| time <= now);
        row.created_by == self.by || self.replaces == Some(row.id) || self.is_of(row) || is_over
    }

    /// Whether the row is this decision.
    fn is_of(&self, row: &ModerationRow) -> bool {
        row.action == self.action && row.reason == self.reason && row.expires_at == self.expires_at
    }
}

/// A decision, in force or lifted.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow, Serialize, JsonSchema)]
#[schemars(rename = "Moderation")]
pub struct ModerationRow {
    pub id: i64,
    /// An AT URI, or a DID.
    pub subject: String,
    pub action: Action,
    pub reason: String,
    /// The DID of the operator, or the trigger of the script.
    pub created_by: String,
    pub created_at: Timestamp,
    /// The time at which the server lifts it; null: never.
    pub expires_at: Option<Timestamp>,
    /// Null while it is in force.
    pub lifted_at: Option<Timestamp>,
    /// The operator or the script; null when it has expired.
    pub lifted_by: Option<String>,
    pub lift_reason: Option<String>,
}

/// Selects decisions; all given conditions must hold.
#[derive(Clone, Debug, Default)]
pub struct ModerationFilter {
    /// `None`: those in force and lifted ones.
    pub active: Option<bool>,
    pub action: Option<Action>,
    /// The AT URI or the DID.
    pub subject: Option<String>,
    /// Only decisions with a smaller id.
    pub before: Option<i64>,
}

/// Subjects of one statement of [`active_on`].
const MAX_SUBJECTS: usize = 500;

const COLUMNS: &str =
    "id, subject, action, reason, created_by, created_at, expires_at, lifted_at, lifted_by, lift_reason";

/// Decisions, newest first, at most `limit`.
pub async fn list(db: &Db, filter: &ModerationFilter, limit: u32) -> Result<Vec<ModerationRow>, StoreError> {
    let sql = list_sql(filter);
    Ok(on!(db, reader, |pool| {
        sqlx::query_as(AssertSqlSafe(sql))
            .bind(filter.before.unwrap_or(i64::MAX))
            .bind(i64::from(limit))
            .bind(&filter.subject)
            .bind(filter.action.map(Action::as_str))
            .fetch_all(pool)
            .await
    })?)
}

/// The statement has only the conditions that are given, so that each walks an index.
pub(in crate::store) fn list_sql(filter: &ModerationFilter) -> String {
    let active = match filter.active {
        Some(true) => "lifted_at IS NULL",
        Some(false) => "lifted_at IS NOT NULL",
        None => "TRUE",
    };
    let subject = if filter.subject.is_some() { "subject = $3" } else { "CAST($3 AS TEXT) IS NULL" };
    let action = if filter.action.is_some() { "action = $4" } else { "CAST($4 AS TEXT) IS NULL" };
    format!(
        "SELECT {COLUMNS} FROM moderation WHERE id < $1 AND {active} AND {subject} AND {action} ORDER BY id DESC LIMIT $2"
    )
}

pub async fn get(db: &Db, id: i64) -> Result<Option<ModerationRow>, StoreError> {
    let sql = format!("SELECT {COLUMNS} FROM moderation WHERE id = $1");
    Ok(on!(db, writer, |pool| sqlx::query_as(AssertSqlSafe(sql)).bind(id).fetch_optional(pool).await)?)
}

/// The decision in force on a subject.
pub async fn active(db: &Db, subject: &Subject) -> Result<Option<ModerationRow>, StoreError> {
    let subject = subject.to_string();
    Ok(active_on(db, std::slice::from_ref(&subject)).await?.remove(&subject))
}

/// The decisions in force on some subjects, by subject.
pub async fn active_on(db: &Db, subjects: &[String]) -> Result<HashMap<String, ModerationRow>, StoreError> {
    let mut found = HashMap::new();
    for chunk in subjects.chunks(MAX_SUBJECTS) {
        let sql = AssertSqlSafe(active_on_sql(db.backend()));
        let rows: Vec<ModerationRow> = match db {
            Db::Sqlite(db) => sqlx::query_as(sql).bind(to_json_text(chunk)).fetch_all(&db.reader).await?,
            Db::Postgres(db) => sqlx::query_as(sql).bind(chunk).fetch_all(db.reader()).await?,
        };
        found.extend(rows.into_iter().map(|row| (row.subject.clone(), row)));
    }
    Ok(found)
}

/// The statement of [`active_on`].
pub(in crate::store) fn active_on_sql(backend: Backend) -> String {
    let is_subject = match backend {
        Backend::Sqlite => "subject IN (SELECT value FROM json_each($1))",
        Backend::Postgres => "subject = ANY($1)",
    };
    format!("SELECT {COLUMNS} FROM moderation WHERE lifted_at IS NULL AND {is_subject}")
}

pub(in crate::store) const EXPIRED: &str = "SELECT id FROM moderation WHERE lifted_at IS NULL AND expires_at IS NOT NULL \
     AND expires_at <= $1 ORDER BY expires_at LIMIT $2";

/// The ids of decisions whose time is over, at most `limit`.
pub async fn expired(db: &Db, now: Timestamp, limit: u32) -> Result<Vec<i64>, StoreError> {
    Ok(on!(db, reader, |pool| {
        sqlx::query_scalar(EXPIRED).bind(now).bind(i64::from(limit)).fetch_all(pool).await
    })?)
}
