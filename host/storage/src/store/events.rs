//! Stores the event log.

use sqlx::AssertSqlSafe;

use belvedere_base::clock::Timestamp;

use super::text_enum::text_enum;
use super::{Backend, Db, StoreError, on};

text_enum! {
    pub enum Severity {
        Info = "info",
        Warn = "warn",
        Error = "error",
    }
}

text_enum! {
    /// The way in which the client of a request has authenticated.
    pub enum Authentication {
        /// With the cookie of a browser that is logged in.
        Session = "session",
        /// With an API key of the admin API.
        ApiKey = "api_key",
        /// With a token that its DID's key has signed.
        ServiceToken = "service_token",
        /// With an application's session and a proof of its key.
        Dpop = "dpop",
    }
}

/// The client that sent the request that caused an event. Empty for an event of the server itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, sqlx::FromRow)]
pub struct Requester {
    /// An IP address.
    pub address: Option<String>,
    /// `None` for a client that has not authenticated.
    pub authentication: Option<Authentication>,
    /// The name of the API key, as it was when the event occurred.
    pub api_key: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct EventRow {
    /// UUID.
    pub id: String,
    /// `category.what_happened`
    pub event_type: String,
    pub severity: Severity,
    pub actor_did: Option<String>,
    pub subject: Option<String>,
    /// JSON text of an object.
    pub detail: String,
    pub created_at: Timestamp,
    #[sqlx(flatten)]
    pub requester: Requester,
}

/// All given conditions must hold; an empty list matches everything.
#[derive(Clone, Debug, Default)]
pub struct EventFilter {
    pub event_type: Option<String>,
    /// First segments of event types.
    pub categories: Vec<String>,
    pub severities: Vec<Severity>,
    /// A substring of the subject, case-sensitive. No index serves it: callers take a permit for a scan.
    pub subject: Option<String>,
    /// The whole subject.
    pub subject_is: Option<String>,
    /// The DID of the actor.
    pub actor: Option<String>,
    /// The address of the client that caused the event.
    pub address: Option<String>,
    /// Only events of this time and later.
    pub from: Option<Timestamp>,
    /// Only events of an earlier time.
    pub before: Option<Timestamp>,
    /// The event before the page.
    pub after: Option<EventKeyset>,
}

impl EventFilter {
    /// Whether a row meets the conditions, except that of the page.
    pub fn matches(&self, row: &EventRow) -> bool {
        let is_in = |category: &String| {
            row.event_type.strip_prefix(category.as_str()).is_some_and(|rest| rest.starts_with('.'))
        };
        let has = |part: &String| row.subject.as_ref().is_some_and(|subject| subject.contains(part.as_str()));
        self.event_type.as_ref().is_none_or(|wanted| *wanted == row.event_type)
            && (self.categories.is_empty() || self.categories.iter().any(is_in))
            && (self.severities.is_empty() || self.severities.contains(&row.severity))
            && self.subject.as_ref().is_none_or(has)
            && (self.subject_is.is_none() || self.subject_is == row.subject)
            && (self.actor.is_none() || self.actor == row.actor_did)
            && (self.address.is_none() || self.address == row.requester.address)
            && self.from.is_none_or(|from| row.created_at >= from)
            && self.before.is_none_or(|before| row.created_at < before)
    }
}

/// The last row of the previous page. Without an id, the page begins with the first event older than the time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventKeyset {
    pub created_at: Timestamp,
    pub id: Option<String>,
}

macro_rules! insert_sql {
    ($rows:literal) => {
        concat!(
            "INSERT INTO events (created_at, id, event_type, severity, actor_did, subject, detail, address, \
             authentication, api_key) ",
            $rows,
            " ON CONFLICT DO NOTHING"
        )
    };
}

/// Writes a batch atomically, in one statement. Events whose id exists are skipped.
pub async fn insert(db: &Db, events: &[EventRow]) -> Result<(), StoreError> {
    if events.is_empty() {
        return Ok(());
    }
    match db {
        Db::Sqlite(db) => {
            let sql = insert_sql!(
                "SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6, \
                 value ->> 7, value ->> 8, value ->> 9 FROM json_each($1) WHERE true"
            );
            let rows: Vec<_> = events
                .iter()
                .map(|e| {
                    let requester = &e.requester;
                    (
                        e.created_at.0,
                        &e.id,
                        &e.event_type,
                        e.severity.as_str(),
                        &e.actor_did,
                        &e.subject,
                        &e.detail,
                        &requester.address,
                        requester.authentication,
                        &requester.api_key,
                    )
                })
                .collect();
            // Numbers and strings always serialize.
            let rows = serde_json::to_string(&rows).map_err(|e| StoreError::Corrupt(e.to_string()))?;
            sqlx::query(sql).bind(rows).execute(&db.writer).await?;
        }
        Db::Postgres(db) => {
            let sql = insert_sql!(
                "SELECT * FROM UNNEST ($1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], \
                 $7::text[], $8::text[], $9::text[], $10::text[])"
            );
            // A subject may be any text from a caller, and PostgreSQL's text can't contain U+0000.
            let clean = |text: &str| text.replace('\0', "\u{fffd}");
            let authentication = |e: &EventRow| e.requester.authentication.map(Authentication::as_str);
            sqlx::query(sql)
                .bind(events.iter().map(|e| e.created_at.0).collect::<Vec<_>>())
                .bind(events.iter().map(|e| e.id.as_str()).collect::<Vec<_>>())
                .bind(events.iter().map(|e| e.event_type.as_str()).collect::<Vec<_>>())
                .bind(events.iter().map(|e| e.severity.as_str()).collect::<Vec<_>>())
                .bind(events.iter().map(|e| e.actor_did.as_deref().map(clean)).collect::<Vec<_>>())
                .bind(events.iter().map(|e| e.subject.as_deref().map(clean)).collect::<Vec<_>>())
                .bind(events.iter().map(|e| clean(&e.detail)).collect::<Vec<_>>())
                .bind(events.iter().map(|e| e.requester.address.as_deref()).collect::<Vec<_>>())
                .bind(events.iter().map(authentication).collect::<Vec<_>>())
                .bind(events.iter().map(|e| e.requester.api_key.as_deref().map(clean)).collect::<Vec<_>>())
                .execute(db.writer())
                .await?;
        }
    }
    Ok(())
}

pub(super) enum Value {
    Text(String),
    Integer(i64),
}

#[cfg(test)]
impl Value {
    /// The value as an SQL literal.
    pub(super) fn sql(&self) -> String {
        match self {
            Self::Text(text) => format!("'{text}'"),
            Self::Integer(n) => n.to_string(),
        }
    }
}

/// Binds values to a statement's placeholders, in order.
macro_rules! bind {
    ($query:expr, $values:ident) => {
        $values.into_iter().fold($query, |query, value| match value {
            Value::Text(text) => query.bind(text),
            Value::Integer(n) => query.bind(n),
        })
    };
}

/// Newest first by (`created_at`, id).
pub async fn list(db: &Db, filter: &EventFilter, limit: u32) -> Result<Vec<EventRow>, StoreError> {
    let (conditions, mut values) = compile(db.backend(), filter);
    values.push(Value::Integer(i64::from(limit)));
    let sql = list_sql(&conditions, values.len());
    Ok(on!(db, reader, |pool| bind!(sqlx::query_as(AssertSqlSafe(sql)), values).fetch_all(pool).await)?)
}

/// The statement of [`list`]; the placeholder `limit` is that of the number of rows.
pub(super) fn list_sql(conditions: &str, limit: usize) -> String {
    format!(
        "SELECT id, event_type, severity, actor_did, subject, detail, created_at, address, authentication, api_key \
         FROM events {conditions}ORDER BY created_at DESC, id DESC LIMIT ${limit}"
    )
}

/// The number of matching events. Callers take a permit for a scan.
pub async fn count(db: &Db, filter: &EventFilter) -> Result<i64, StoreError> {
    let (conditions, values) = compile(db.backend(), filter);
    let sql = format!("SELECT count(*) FROM events {conditions}");
    Ok(on!(db, reader, |pool| bind!(sqlx::query_scalar(AssertSqlSafe(sql)), values).fetch_one(pool).await)?)
}

/// Removes matching events, the oldest first, at most `max` a call. Returns how many.
pub async fn delete(db: &Db, filter: &EventFilter, max: u32) -> Result<u64, StoreError> {
    let (conditions, mut values) = compile(db.backend(), filter);
    values.push(Value::Integer(i64::from(max)));
    let sql = format!(
        "DELETE FROM events WHERE (created_at, id) IN \
         (SELECT created_at, id FROM events {conditions}ORDER BY created_at, id LIMIT ${})",
        values.len()
    );
    Ok(on!(db, writer, |pool| {
        bind!(sqlx::query(AssertSqlSafe(sql)), values).execute(pool).await?.rows_affected()
    }))
}

/// The WHERE clause, with a space behind it, and the values of its placeholders. A caller's values are only bound to
/// placeholders, never part of the text.
pub(super) fn compile(backend: Backend, filter: &EventFilter) -> (String, Vec<Value>) {
    let mut values = Vec::new();
    let mut bind = |value| {
        values.push(value);
        format!("${}", values.len())
    };
    let mut conditions = Vec::new();
    // SQLite knows no numbers of rows: with `+` it leaves the index of types to conditions that few rows meet.
    let is_rare = filter.subject_is.is_some() || filter.actor.is_some() || filter.address.is_some();
    let event_type_column = match backend {
        Backend::Sqlite if is_rare => "+event_type",
        _ => "event_type",
    };
    if let Some(event_type) = &filter.event_type {
        conditions.push(format!("{event_type_column} = {}", bind(Value::Text(event_type.clone()))));
    }
    if !filter.categories.is_empty() {
        // `/` is the character after `.`, so this range is the prefix `category.`, which the index on the type can use.
        let ranges = filter.categories.iter().map(|category| {
            let from = bind(Value::Text(format!("{category}.")));
            let to = bind(Value::Text(format!("{category}/")));
            format!("{event_type_column} >= {from} AND {event_type_column} < {to}")
        });
        conditions.push(format!("({})", ranges.collect::<Vec<_>>().join(" OR ")));
    }
    if !filter.severities.is_empty() {
        let names = filter.severities.iter().map(|s| bind(Value::Text(s.as_str().to_owned())));
        conditions.push(format!("severity IN ({})", names.collect::<Vec<_>>().join(", ")));
    }
    if let Some(subject) = &filter.subject {
        let function = match backend {
            Backend::Sqlite => "instr",
            Backend::Postgres => "strpos",
        };
        // PostgreSQL would refuse the parameter; [`insert`] replaces the character in the same way.
        let subject = subject.replace('\0', "\u{fffd}");
        conditions.push(format!("{function}(subject, {}) > 0", bind(Value::Text(subject))));
    }
    if let Some(subject) = &filter.subject_is {
        let subject = bind(Value::Text(subject.replace('\0', "\u{fffd}")));
        // The index has the beginnings of subjects.
        conditions
            .push(format!("substr(subject, 1, 200) = substr({subject}, 1, 200) AND subject = {subject}"));
    }
    for (column, value) in [("actor_did", &filter.actor), ("address", &filter.address)] {
        if let Some(value) = value {
            conditions.push(format!("{column} = {}", bind(Value::Text(value.clone()))));
        }
    }
    for (time, comparison) in [(filter.from, ">="), (filter.before, "<")] {
        if let Some(time) = time {
            conditions.push(format!("created_at {comparison} {}", bind(Value::Integer(time.0))));
        }
    }
    if let Some(after) = &filter.after {
        let time = bind(Value::Integer(after.created_at.0));
        conditions.push(match &after.id {
            Some(id) => format!("(created_at, id) < ({time}, {})", bind(Value::Text(id.clone()))),
            None => format!("created_at < {time}"),
        });
    }
    let conditions =
        if conditions.is_empty() { String::new() } else { format!("WHERE {} ", conditions.join(" AND ")) };
    (conditions, values)
}

/// Makes every statement about events fail, or succeed again, on a SQLite database.
#[cfg(any(test, feature = "testing"))]
pub async fn refuse_writes(db: &Db, refuse: bool) {
    let Db::Sqlite(db) = db else { unreachable!("only tests on SQLite use it") };
    let (from, to) = if refuse { ("events", "events_away") } else { ("events_away", "events") };
    let sql = AssertSqlSafe(format!("ALTER TABLE {from} RENAME TO {to}"));
    sqlx::query(sql).execute(&db.writer).await.expect("the database answers");
}
