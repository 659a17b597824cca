//! Whether the database can serve requests, for those who ask it often.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Mutex;

use super::Db;
use super::health::Unhealthy;
use crate::clock::Timestamp;

/// A database that takes longer than this to answer serves nobody in time either.
const DATABASE_TIME: Duration = Duration::from_secs(2);

/// How long a look at the database counts. Anybody may ask, and however often they do, the database is read and written
/// once in this time.
const FRESH: Duration = Duration::from_secs(2);

const UNKNOWN: &str = "unknown";

/// What was last seen of the database.
#[derive(Debug, Default)]
pub struct Readiness {
    /// All migrations were applied: while this process runs they stay so.
    migrated: AtomicBool,
    last: Mutex<Option<(Instant, Looked)>>,
}

/// What a look at the database showed: what is wrong, for everybody to read. The causes are in the log.
#[derive(Clone, Debug)]
pub struct Looked {
    pub database: Result<(), String>,
    pub migrations: Result<(), String>,
}

impl Readiness {
    /// The last look at the database, or a new one; callers that come meanwhile wait for it.
    pub async fn look(&self, db: &Db, now: Timestamp) -> Looked {
        let mut last = self.last.lock().await;
        if let Some((at, known)) = &*last
            && at.elapsed() < FRESH
        {
            return known.clone();
        }
        let seen = tokio::time::timeout(DATABASE_TIME, self.look_anew(db, now)).await;
        let seen = seen.unwrap_or_else(|_| Looked {
            database: Err("the database does not answer in time".to_owned()),
            migrations: Err(UNKNOWN.to_owned()),
        });
        *last = Some((Instant::now(), seen.clone()));
        seen
    }

    async fn look_anew(&self, db: &Db, now: Timestamp) -> Looked {
        if let Err(error) = db.check_readable().await {
            return Looked { database: unhealthy(&error), migrations: Err(UNKNOWN.to_owned()) };
        }
        let migrations = self.migrations(db).await;
        if migrations.is_err() {
            return Looked { database: Ok(()), migrations };
        }
        let database = match db.check_writable(now).await {
            Ok(()) => Ok(()),
            Err(error) => unhealthy(&error),
        };
        Looked { database, migrations }
    }

    async fn migrations(&self, db: &Db) -> Result<(), String> {
        if self.migrated.load(Ordering::Relaxed) {
            return Ok(());
        }
        match db.pending_migrations().await {
            Ok(0) => {
                self.migrated.store(true, Ordering::Relaxed);
                Ok(())
            }
            Ok(count) => Err(format!("{count} migrations have not been applied: run belvedere migrate")),
            Err(error) => {
                tracing::warn!(%error, "the migrations can't be looked up");
                Err(UNKNOWN.to_owned())
            }
        }
    }
}

fn unhealthy(error: &Unhealthy) -> Result<(), String> {
    tracing::warn!(%error, cause = ?std::error::Error::source(error), "the database is not healthy");
    Err(error.to_string())
}
