//! The lease of the stream: one host at a time follows it.
//!
//! On PostgreSQL it is an advisory lock, held by a connection of its own for as long as that is open: a host that dies
//! lets go of it without doing anything. A host may notice later than the database that its connection is gone, so
//! each lease also has a number, its [`Term`]: [`super::index::apply`] takes nothing in from a term that is over.
//!
//! A SQLite file has one server, which always has the lease.

use std::time::Duration;

use crate::clock::Timestamp;

use super::line::Line;
use super::{Db, Postgres, StoreError};

/// The advisory lock: ASCII of "jetlease".
const LOCK: i64 = 0x6a65_746c_6561_7365;

/// Where the number of the newest term is kept: beside the cursor that it guards.
pub(super) const TERM_SOURCE: &str = "lease";

/// Asking for the lease may take this long. Whoever commits for the term before is waited for.
const TAKE_TIME: Duration = Duration::from_secs(10);

/// The number of a lease. Later leases have higher ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Term(pub(super) i64);

impl Term {
    /// Of a server that is alone with its database. It is never over.
    pub const ALONE: Self = Self(0);

    #[cfg(test)]
    pub(crate) fn numbered(number: i64) -> Self {
        Self(number)
    }
}

/// The lease, had or wanted. It ends with this value.
#[derive(Debug)]
pub struct Lease(Option<Contest>);

#[derive(Debug)]
struct Contest {
    db: Postgres,
    line: Option<Line>,
}

impl Lease {
    /// Not taken yet.
    pub fn of(db: &Db) -> Self {
        match db {
            Db::Sqlite(_) => Self::alone(),
            Db::Postgres(db) => Self(Some(Contest { db: db.clone(), line: None })),
        }
    }

    /// One that nobody else wants.
    pub(crate) fn alone() -> Self {
        Self(None)
    }

    /// Takes it if nobody has it; `None` while another host does. Not to be called by who has it.
    ///
    /// # Errors
    /// When the database can't be asked. Then the lease is not had, also if that was all that went wrong.
    pub async fn take(&mut self, now: Timestamp) -> Result<Option<Term>, StoreError> {
        let Some(contest) = &mut self.0 else { return Ok(Some(Term::ALONE)) };
        let line = match &mut contest.line {
            Some(line) => line,
            None => contest.line.insert(Line::open(&contest.db).await?),
        };
        let taken = tokio::time::timeout(TAKE_TIME, take(line, now)).await;
        let taken = taken.unwrap_or_else(|_| Err(StoreError::Unavailable(sqlx::Error::PoolTimedOut)));
        if taken.is_err() {
            contest.line = None;
        }
        taken
    }

    /// Returns when a lease that was taken is lost.
    pub async fn lost(&mut self) {
        let Some(contest) = &mut self.0 else { return std::future::pending().await };
        if let Some(line) = &mut contest.line {
            // Nothing is listened to.
            while line.next().await.is_some() {}
        }
        contest.line = None;
    }

    /// Lets others have it at once. Just dropped, they have it once the server sees that the connection is gone.
    pub async fn give_back(&mut self) {
        if let Some(line) = self.0.as_mut().and_then(|contest| contest.line.take()) {
            line.close().await;
        }
    }
}

async fn take(line: &mut Line, now: Timestamp) -> Result<Option<Term>, StoreError> {
    let lock = sqlx::query_scalar("SELECT pg_try_advisory_lock($1)").bind(LOCK);
    if !lock.fetch_one(line.connection()).await? {
        return Ok(None);
    }
    // Waits for a commit of the term before, if there is one: it holds the row. Counting begins at the time, so that it
    // goes on where it was if somebody empties the table.
    let sql = "INSERT INTO stream_cursors (source, cursor, updated_at) VALUES ($1, $2, $2) ON CONFLICT (source) \
               DO UPDATE SET cursor = greatest(stream_cursors.cursor + 1, excluded.cursor), \
                   updated_at = excluded.updated_at RETURNING cursor";
    let term = sqlx::query_scalar(sql).bind(TERM_SOURCE).bind(now).fetch_one(line.connection()).await?;
    Ok(Some(Term(term)))
}
