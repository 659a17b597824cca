//! Grants leases: of the stream and of the labelers, so that one host at a time follows them, of backfills, so that one
//! runs them, and of upkeep, so that one refreshes the lexicons of the network and validates records again. Each
//! further lease gets a purpose here, and its holder writes with the handle of [`Lease::fenced`], or compares the
//! values that it replaces, as the labelers do with their cursors.
//!
//! On PostgreSQL the lease is an advisory lock on a dedicated connection: when a host dies, its connection closes and
//! the lock is released. A host that hangs (a stopped process, a paused machine) keeps its connection open, but sends
//! no more pings on it. After [`LAPSE`] without one, by the database's clock, the other hosts end its session, which
//! releases the lock. A host may detect the loss of its connection later than the database does, or on waking, so each
//! lease also has a number, its [`Term`]: [`super::index::apply`] rejects batches of a term that is over, and so does every
//! transaction of a fenced handle ([`Lease::fenced`]).
//!
//! A SQLite file has one server, which always has the lease.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use belvedere_base::clock::{Clock, Timestamp};

use super::dedicated_connection::DedicatedConnection;
use super::fence::Fence;
use super::postgres::{APPLICATION_NAME, Postgres};
use super::{Db, StoreError};

/// The row of `stream_cursors` with the stream's newest term, next to the cursor that it protects.
pub(super) const TERM_SOURCE: &str = "lease";

/// The work that a lease permits.
#[derive(Clone, Copy, Debug)]
enum Purpose {
    Stream,
    Backfills,
    Upkeep,
    Labelers,
}

impl Purpose {
    /// The advisory lock: ASCII of "jetlease", "bfllease", "upklease" and "lbllease".
    fn lock(self) -> i64 {
        match self {
            Self::Stream => 0x6a65_746c_6561_7365,
            Self::Backfills => 0x6266_6c6c_6561_7365,
            Self::Upkeep => 0x7570_6b6c_6561_7365,
            Self::Labelers => 0x6c62_6c6c_6561_7365,
        }
    }

    /// The row of `stream_cursors` with the newest term.
    fn term_source(self) -> &'static str {
        match self {
            Self::Stream => TERM_SOURCE,
            Self::Backfills => "backfill lease",
            Self::Upkeep => "upkeep lease",
            Self::Labelers => "labeler lease",
        }
    }
}

/// Time limit for taking the lease, which waits for a running commit of the previous term.
const TAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Interval between two attempts to take a lease that another host holds.
const RETRY_INTERVAL: Duration = Duration::from_secs(2);

/// A lease lapses when its holder has sent nothing for this time: five pings
/// ([`super::dedicated_connection::DedicatedConnection::next`]). A holder that is only slow loses nothing but the lease.
pub(super) const LAPSE: Duration = Duration::from_secs(10);

/// A commit of the stream that has sent nothing for this time belongs to a host that hangs: it sends one statement
/// after the other. It must end before the next term can begin.
const COMMIT_LAPSE: Duration = Duration::from_secs(5);

/// Ends the sessions of hosts that hang: those that hold the lease, and commits that lock the term. Only sessions of
/// this role, because PostgreSQL neither shows nor ends those of others.
///
/// $1: the lock. $2 and $3: [`LAPSE`] and [`COMMIT_LAPSE`] in seconds. $4: how long to wait for the end of each, in
/// milliseconds. $5: the name under which hosts connect.
const END_LAPSED: &str = "SELECT coalesce(bool_and(pg_terminate_backend(pid, $4)), TRUE), count(*) \
     FROM pg_stat_activity WHERE datname = current_database() AND usename = current_user AND application_name = $5 \
     AND (state = 'idle' AND state_change < clock_timestamp() - make_interval(secs => $2) AND pid IN ( \
             SELECT pid FROM pg_locks WHERE granted AND locktype = 'advisory' AND objsubid = 1 \
             AND classid = ($1 >> 32)::oid AND objid = ($1 & 4294967295)::oid \
             AND database = (SELECT oid FROM pg_database WHERE datname = current_database())) \
         OR state LIKE 'idle in transaction%' \
             AND state_change < clock_timestamp() - make_interval(secs => $3) AND pid IN ( \
             SELECT pid FROM pg_locks WHERE granted AND relation = 'stream_cursors'::regclass \
             AND database = (SELECT oid FROM pg_database WHERE datname = current_database())))";

/// Time to wait for the end of a session that was asked to end; normally it takes milliseconds.
const END_TIMEOUT: Duration = Duration::from_secs(1);

/// The number of a lease. Later leases have higher numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Term(pub(super) i64);

impl Term {
    /// The term of a server that shares its database with no other host. It never ends.
    pub const ALONE: Self = Self(0);

    /// A term with this number.
    #[cfg(any(test, feature = "testing"))]
    pub fn numbered(number: i64) -> Self {
        Self(number)
    }
}

/// A candidate for the lease, which may or may not have it. Dropping the value gives the lease up.
#[derive(Debug)]
pub struct Lease(Option<PostgresLease>);

#[derive(Debug)]
struct PostgresLease {
    db: Postgres,
    purpose: Purpose,
    connection: Option<DedicatedConnection>,
}

impl Lease {
    /// The lease of the stream, not taken yet.
    pub fn of(db: &Db) -> Self {
        Self::with_purpose(db, Purpose::Stream)
    }

    /// The lease of backfills, not taken yet.
    pub fn of_backfills(db: &Db) -> Self {
        Self::with_purpose(db, Purpose::Backfills)
    }

    /// The lease of upkeep, not taken yet.
    pub fn of_upkeep(db: &Db) -> Self {
        Self::with_purpose(db, Purpose::Upkeep)
    }

    /// The lease of the labelers, not taken yet.
    pub fn of_labelers(db: &Db) -> Self {
        Self::with_purpose(db, Purpose::Labelers)
    }

    fn with_purpose(db: &Db, purpose: Purpose) -> Self {
        match db {
            Db::Sqlite(_) => Self::alone(),
            Db::Postgres(db) => Self(Some(PostgresLease { db: db.clone(), purpose, connection: None })),
        }
    }

    /// A lease without competing hosts: taking it always succeeds.
    pub fn alone() -> Self {
        Self(None)
    }

    /// Takes the lease if it is free; `None` while another host has it. Must not be called while holding the lease.
    ///
    /// # Errors
    /// When the database fails or does not answer in time. The lease is not held then, even if the lock was acquired.
    pub async fn take(&mut self, now: Timestamp) -> Result<Option<Term>, StoreError> {
        let Some(lease) = &mut self.0 else { return Ok(Some(Term::ALONE)) };
        let connection = match &mut lease.connection {
            Some(connection) => connection,
            None => lease.connection.insert(lease.db.dedicated_connection().await?),
        };
        let taken = tokio::time::timeout(TAKE_TIMEOUT, take(connection, lease.purpose, now)).await;
        let taken = taken.unwrap_or_else(|_| Err(StoreError::Unavailable(sqlx::Error::PoolTimedOut)));
        if taken.is_err() {
            lease.connection = None;
        }
        taken
    }

    /// A handle whose transactions fail with [`StoreError::Superseded`] once `term`, which [`Self::take`] returned, is over:
    /// a host that hung and wakes up writes nothing more. Statements outside of transactions are not checked.
    pub fn fenced(&self, db: &Db, term: Term) -> Db {
        match (&self.0, db) {
            (Some(lease), Db::Postgres(db)) => {
                let fence = Fence::new(lease.purpose.term_source(), term.0);
                Db::Postgres(Postgres { fence: Some(fence), ..db.clone() })
            }
            _ => db.clone(),
        }
    }

    /// Takes the lease, and waits while another host has it or the database fails. `None` when `stop` is cancelled. Must
    /// not be called while holding the lease. `what` names the lease in the log.
    pub async fn acquire(&mut self, what: &str, clock: &Clock, stop: &CancellationToken) -> Option<Term> {
        loop {
            match stop.run_until_cancelled(self.take(clock.now())).await? {
                Ok(Some(term)) => return Some(term),
                Ok(None) => {}
                Err(error) => tracing::warn!(%error, "can't take the lease of {what}"),
            }
            stop.run_until_cancelled(tokio::time::sleep(RETRY_INTERVAL)).await?;
        }
    }

    /// Returns when a lease that was taken is lost.
    pub async fn lost(&mut self) {
        let Some(lease) = &mut self.0 else { return std::future::pending().await };
        if let Some(connection) = &mut lease.connection {
            // The connection listens to no channel: only its loss ends this loop.
            while connection.next().await.is_some() {}
        }
        lease.connection = None;
    }

    /// Releases the lease at once. After a mere drop it is free when the server has detected the end of the connection.
    pub async fn release(&mut self) {
        if let Some(connection) = self.0.as_mut().and_then(|lease| lease.connection.take()) {
            connection.close().await;
        }
    }
}

async fn take(
    connection: &mut DedicatedConnection,
    purpose: Purpose,
    now: Timestamp,
) -> Result<Option<Term>, StoreError> {
    end_lapsed(connection, purpose).await?;
    let lock = sqlx::query_scalar("SELECT pg_try_advisory_lock($1)").bind(purpose.lock());
    if !lock.fetch_one(connection.listener()).await? {
        return Ok(None);
    }
    // Waits for a running commit of the previous term, which has locked the row. Terms start at the current time, so
    // that they still rise after an operator has emptied the table.
    let sql = "INSERT INTO stream_cursors (source, cursor, updated_at) VALUES ($1, $2, $2) ON CONFLICT (source) \
               DO UPDATE SET cursor = greatest(stream_cursors.cursor + 1, excluded.cursor), \
                   updated_at = excluded.updated_at RETURNING cursor";
    let term = sqlx::query_scalar(sql)
        .bind(purpose.term_source())
        .bind(now)
        .fetch_one(connection.listener())
        .await?;
    Ok(Some(Term(term)))
}

async fn end_lapsed(connection: &mut DedicatedConnection, purpose: Purpose) -> Result<(), StoreError> {
    let (ended, count): (bool, i64) = sqlx::query_as(END_LAPSED)
        .bind(purpose.lock())
        .bind(LAPSE.as_secs_f64())
        .bind(COMMIT_LAPSE.as_secs_f64())
        .bind(END_TIMEOUT.as_millis() as i64)
        .bind(APPLICATION_NAME)
        .fetch_one(connection.listener())
        .await?;
    if count > 0 {
        tracing::warn!(
            sessions = count,
            ended,
            "the host that holds a lease hangs: its database sessions were told to end, and another host takes over"
        );
    }
    if ended { Ok(()) } else { Err(StoreError::Lapsed) }
}
