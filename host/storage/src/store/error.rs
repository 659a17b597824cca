//! Defines [`StoreError`] and classifies the error codes of both databases.

use http::StatusCode;
use sqlx::error::ErrorKind;

use super::fence::TermOver;
use super::lost::{NodeLost, is_lost, is_of_node};
use super::partitions::{UnknownPartition, is_of_split};
use super::revisions::Stale;
use belvedere_web::fair_share::Full;
use belvedere_web::http::Error;

/// An error of the store. Callers map `Conflict` to 409, `BadValue` to 400 and the others to 500 (the cause is only
/// logged).
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A unique constraint was violated; the text names the constraint or its columns.
    #[error("the row exists already: {0}")]
    Conflict(String),
    /// A change is based on a revision that is not the newest.
    #[error(transparent)]
    Stale(#[from] Box<Stale>),
    /// The database can't be reached, is overloaded or shutting down; the same call may work later.
    #[error("the database is unavailable: {}", reason(.0))]
    Unavailable(#[source] sqlx::Error),
    /// The database URL is unusable, or the data directory can't be created.
    #[error("the database can't be opened: {0}")]
    Open(String),
    #[error("a migration failed: {0}")]
    Migrate(#[from] sqlx::migrate::MigrateError),
    /// A row contains a value that this server never writes.
    #[error("corrupt row: {0}")]
    Corrupt(String),
    /// The database can't store a value, such as a text with U+0000 on PostgreSQL. The value came from a caller: 400.
    #[error("a value can't be stored: {0}")]
    BadValue(#[source] sqlx::Error),
    /// A statement was stopped because it took too long.
    #[error("the statement took too long")]
    TooSlow,
    /// The tenant has too many scans running or waiting (`scans`).
    #[error("too many searches, counts or SQL statements at once: {0}")]
    Busy(Full),
    /// A batch of the stream, or a transaction of a task that one host at a time runs, was not committed, because another
    /// host has taken the lease.
    #[error("another host has the lease")]
    Superseded,
    /// The host that holds a lease hangs, and the database has not ended its session.
    #[error("the host that holds the lease hangs, and its database session does not end")]
    Lapsed,
    #[error("database error: {0}")]
    Database(#[source] sqlx::Error),
}

impl StoreError {
    /// Whether [`super::Db::close`] was called.
    pub fn is_closed(&self) -> bool {
        matches!(self, Self::Unavailable(sqlx::Error::PoolClosed))
    }

    /// Whether the database can't store a value, which says nothing about its own state.
    pub fn is_of_value(&self) -> bool {
        matches!(self, Self::BadValue(_))
    }

    /// Whether PostgreSQL rolled the transaction back because of another one (SQLSTATE class 40): it may be repeated.
    pub(super) fn is_conflict_of_transactions(&self) -> bool {
        let Self::Unavailable(sqlx::Error::Database(error)) = self else { return false };
        error.code().is_some_and(|code| code.len() == 5 && code.starts_with("40"))
    }

    /// Whether the statement failed because its connection was lost. It may have run.
    pub(super) fn is_lost_connection(&self) -> bool {
        match self {
            Self::Unavailable(error) | Self::Database(error) => is_lost(error),
            _ => false,
        }
    }
}

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> Self {
        match &error {
            sqlx::Error::Database(database) => {
                if database.kind() == ErrorKind::UniqueViolation {
                    let what = database.constraint().unwrap_or_else(|| database.message());
                    return Self::Conflict(what.to_owned());
                }
                if database.code().is_some_and(|code| is_temporary(&code)) || is_of_split(&error) {
                    return Self::Unavailable(error);
                }
                if database.code().is_some_and(|code| is_timeout(&code)) {
                    return Self::TooSlow;
                }
                if is_bad_value(&error) { Self::BadValue(error) } else { Self::Database(error) }
            }
            sqlx::Error::Io(_)
            | sqlx::Error::Tls(_)
            | sqlx::Error::PoolTimedOut
            | sqlx::Error::PoolClosed
            | sqlx::Error::WorkerCrashed => Self::Unavailable(error),
            sqlx::Error::Configuration(source) if source.is::<TermOver>() => Self::Superseded,
            sqlx::Error::Configuration(source) if source.is::<NodeLost>() => Self::Unavailable(error),
            sqlx::Error::ColumnDecode { .. } | sqlx::Error::Decode(_) => Self::Corrupt(error.to_string()),
            _ => Self::Database(error),
        }
    }
}

impl From<UnknownPartition> for StoreError {
    fn from(error: UnknownPartition) -> Self {
        Self::Corrupt(error.to_string())
    }
}

/// The remedy when the server's certificate can't be used.
const TLS_HINT: &str = "TLS is used because the server offers it. Give the server a certificate of X.509 version 3, or \
                        add ?sslmode=disable to the database URL where the connection needs no encryption";

/// The text of an error, with what to do when TLS with the server failed.
fn reason(error: &sqlx::Error) -> String {
    if is_tls(error) { format!("TLS with the server failed: {error}. {TLS_HINT}") } else { error.to_string() }
}

/// Whether TLS with the server failed, not the connection below it.
fn is_tls(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Tls(_) => true,
        sqlx::Error::Io(io) => io.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()).is_some(),
        _ => false,
    }
}

/// The answer to a request for records of a shard whose node is lost. The log names the node.
const NODE_LOST: &str = "the database server that has these records can't be reached: try again later";

/// The answer while this host does not know yet where the records of a shard are that was split.
const SHARD_SPLIT: &str = "the shard of these records was split a moment ago: try again in a few seconds";

/// The response to an error that the handler does not map itself: 503 for [`StoreError::Busy`], a lost node and a shard that was split,
/// 409 for [`StoreError::Stale`], otherwise 500 with the cause in the log. Handlers map conflicts and missing rows before they use this conversion.
impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Busy(_) => Self::new(StatusCode::SERVICE_UNAVAILABLE, error.to_string()),
            StoreError::Stale(stale) => Self::conflict(stale.to_string()),
            StoreError::Unavailable(lost) if is_of_node(&lost) => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, NODE_LOST)
            }
            StoreError::Unavailable(split) if is_of_split(&split) => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, SHARD_SPLIT)
            }
            error => Self::internal(error),
        }
    }
}

/// SQLSTATE classes 08 (connection), 53 (resources), 57P (operator intervention) and 40 (serialization, deadlock);
/// SQLite's BUSY, LOCKED, IOERR, FULL and CANTOPEN, whose primary code is the low byte.
fn is_temporary(code: &str) -> bool {
    if code.len() == 5 {
        return ["08", "53", "57P", "40"].iter().any(|class| code.starts_with(class));
    }
    code.parse::<u32>().is_ok_and(|code| matches!(code & 0xff, 5 | 6 | 10 | 13 | 14))
}

/// PostgreSQL's `query_canceled`, SQLite's INTERRUPT.
pub(super) fn is_timeout(code: &str) -> bool {
    code == "57014" || code == "9"
}

/// Whether a read that failed on a replica would fail on the primary too: because of its values, or because it takes
/// too long. A replica also cancels reads that are in the way of its recovery; these have another code, or at least
/// another text.
pub(super) fn is_definite(error: &sqlx::Error) -> bool {
    let sqlx::Error::Database(database) = error else { return is_bad_value(error) };
    let is_timeout = database.code().is_some_and(|code| is_timeout(&code));
    is_bad_value(error) || is_timeout && !database.message().contains("recovery")
}

/// Whether a statement failed because of the values in it, and not because of the state of the database: classes
/// 22 (data), 23 (constraint) and 54 (program limit) on PostgreSQL; MISMATCH, TOOBIG and CONSTRAINT on SQLite.
pub(super) fn is_bad_value(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Encode(_) => true,
        sqlx::Error::Database(database) => database.code().is_some_and(|code| {
            if code.len() == 5 {
                return ["22", "23", "54"].iter().any(|class| code.starts_with(class));
            }
            code.parse::<u32>().is_ok_and(|code| matches!(code & 0xff, 18..=20))
        }),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn temporary_errors_are_recognised() {
        for code in ["08006", "53300", "57P01", "40P01", "5", "261", "13"] {
            assert!(is_temporary(code), "{code}");
        }
        for code in ["23505", "22P05", "42P01", "57014", "1", "19", "2067"] {
            assert!(!is_temporary(code), "{code}");
        }
    }
}
