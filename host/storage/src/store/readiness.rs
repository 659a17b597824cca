//! Checks whether the database can serve requests, with a cached result for frequent callers (`/readyz`).

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Mutex;

use super::Db;
use super::gaps::OpenGap;
use super::health::Unhealthy;
use belvedere_base::clock::Timestamp;

/// A database that takes longer than this to answer can't serve requests in time either.
const CHECK_TIMEOUT: Duration = Duration::from_secs(2);

/// Time for which a result is reused. The endpoint is public: however often it is called, the database is read and
/// written once in this time.
const CACHE_TIME: Duration = Duration::from_secs(2);

const UNKNOWN: &str = "unknown";

/// The cached result of the last check.
#[derive(Debug, Default)]
pub struct Readiness {
    /// Whether all migrations are applied. They stay applied while this process runs.
    migrated: AtomicBool,
    last: Mutex<Option<(Instant, Report)>>,
}

/// The result of a check. The texts are public; the causes are only in the log.
#[derive(Clone, Debug)]
pub struct Report {
    pub database: Result<(), String>,
    pub migrations: Result<(), String>,
    /// The gaps of the stream whose catch-up has not ended; empty if they can't be read.
    pub gaps: Vec<OpenGap>,
}

impl Readiness {
    /// The cached result if it is recent, otherwise that of a new check, which concurrent callers wait for.
    pub async fn check(&self, db: &Db, now: Timestamp) -> Report {
        let mut last = self.last.lock().await;
        if let Some((at, report)) = &*last
            && at.elapsed() < CACHE_TIME
        {
            return report.clone();
        }
        let report = tokio::time::timeout(CHECK_TIMEOUT, self.run_checks(db, now)).await;
        let report = report.unwrap_or_else(|_| Report {
            database: Err("the database does not answer in time".to_owned()),
            migrations: Err(UNKNOWN.to_owned()),
            gaps: Vec::new(),
        });
        *last = Some((Instant::now(), report.clone()));
        report
    }

    async fn run_checks(&self, db: &Db, now: Timestamp) -> Report {
        if let Err(error) = db.check_readable().await {
            let migrations = Err(UNKNOWN.to_owned());
            return Report { database: unhealthy(&error), migrations, gaps: Vec::new() };
        }
        let migrations = self.check_migrations(db).await;
        if migrations.is_err() {
            return Report { database: Ok(()), migrations, gaps: Vec::new() };
        }
        let gaps = super::gaps::open(db).await.unwrap_or_default();
        let database = match db.check_writable(now).await {
            Ok(()) => Ok(()),
            Err(error) => unhealthy(&error),
        };
        Report { database, migrations, gaps }
    }

    async fn check_migrations(&self, db: &Db) -> Result<(), String> {
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
                tracing::warn!(%error, "can't read which migrations are applied");
                Err(UNKNOWN.to_owned())
            }
        }
    }
}

fn unhealthy(error: &Unhealthy) -> Result<(), String> {
    tracing::warn!(%error, cause = ?std::error::Error::source(error), "the database is not healthy");
    Err(error.to_string())
}
