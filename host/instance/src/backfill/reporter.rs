//! Counts a job's progress, saves it, and sends it to the watchers.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use super::meter::Meter;
use super::progress::{Broadcast, Progress};
use belvedere_storage::store::backfill::{self, ActiveJob, Counters};
use belvedere_storage::store::status::Stage;
use belvedere_storage::store::{Db, StoreError};

/// Time between two checkpoints.
pub(super) const SAVE_EVERY: Duration = Duration::from_millis(250);

/// The progress of the running job.
#[derive(Debug)]
pub(super) struct Reporter {
    db: Db,
    pub(super) seq: i64,
    job_id: Arc<str>,
    broadcast: Broadcast,
    total_repos: AtomicI64,
    resolved_repos: AtomicI64,
    processed_repos: AtomicI64,
    failed_repos: AtomicI64,
    pub(super) total_records: Arc<AtomicI64>,
    pub(super) meter: Arc<Meter>,
    sent: std::sync::Mutex<Counters>,
}

impl Reporter {
    /// Counts what earlier runs of the job did.
    pub(super) async fn of(db: &Db, job: &ActiveJob, broadcast: &Broadcast) -> Result<Self, StoreError> {
        let counters = backfill::count(db, job.seq).await?;
        Ok(Self {
            db: db.clone(),
            seq: job.seq,
            job_id: job.id.as_str().into(),
            broadcast: broadcast.clone(),
            total_repos: counters.total_repos.into(),
            resolved_repos: counters.resolved_repos.into(),
            processed_repos: counters.processed_repos.into(),
            failed_repos: counters.failed_repos.into(),
            total_records: Arc::new(counters.total_records.into()),
            meter: Arc::new(Meter::from(backfill::traffic(db, job.seq).await?)),
            sent: Counters::default().into(),
        })
    }

    pub(super) fn counters(&self) -> Counters {
        Counters {
            total_repos: self.total_repos.load(Ordering::Relaxed),
            resolved_repos: self.resolved_repos.load(Ordering::Relaxed),
            processed_repos: self.processed_repos.load(Ordering::Relaxed),
            failed_repos: self.failed_repos.load(Ordering::Relaxed),
            total_records: self.total_records.load(Ordering::Relaxed),
        }
    }

    pub(super) fn discovered(&self, dids: Vec<String>) {
        self.total_repos.fetch_add(dids.len() as i64, Ordering::Relaxed);
        for did in dids {
            self.broadcast.send(&self.job_id, || Progress::RepoDiscovered { did });
        }
    }

    pub(super) fn resolved(&self, did: &str, pds_endpoint: &str) {
        self.resolved_repos.fetch_add(1, Ordering::Relaxed);
        self.broadcast.send(&self.job_id, || Progress::RepoResolved {
            did: did.to_owned(),
            pds_endpoint: pds_endpoint.to_owned(),
        });
    }

    /// A repo was read completely.
    pub(super) fn completed(&self) {
        self.processed_repos.fetch_add(1, Ordering::Relaxed);
    }

    /// Repos have failed.
    pub(super) fn failed(&self, repos: i64) {
        self.processed_repos.fetch_add(repos, Ordering::Relaxed);
        self.failed_repos.fetch_add(repos, Ordering::Relaxed);
    }

    pub(super) fn fetched(&self, did: &str, pds_endpoint: &str, records_fetched: i64) {
        self.broadcast.send(&self.job_id, || Progress::RepoFetched {
            did: did.to_owned(),
            pds_endpoint: pds_endpoint.to_owned(),
            records_fetched,
        });
    }

    /// Enters a stage.
    pub(super) async fn enter(&self, stage: Stage) -> Result<(), StoreError> {
        backfill::set_stage(&self.db, self.seq, stage).await?;
        self.broadcast.send(&self.job_id, || Progress::JobStageChanged { stage });
        Ok(())
    }

    /// Sends the counters to the watchers if they have changed.
    pub(super) fn send_counters(&self) {
        let now = self.counters();
        let mut sent = self.sent.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(progress) = Progress::counters(*sent, now) {
            *sent = now;
            self.broadcast.send(&self.job_id, || progress);
        }
    }

    /// Saves the counters and sends them to the watchers.
    pub(super) async fn save(&self) -> Result<(), StoreError> {
        backfill::save_counters(&self.db, self.seq, &self.counters()).await?;
        self.send_counters();
        Ok(())
    }
}

/// Says when a checkpoint is due.
#[derive(Debug)]
pub(super) struct Pace(Instant);

impl Pace {
    pub(super) fn new() -> Self {
        Self(Instant::now() + SAVE_EVERY)
    }

    /// The time of the next checkpoint.
    pub(super) fn due(&self) -> Instant {
        self.0
    }

    /// Whether a checkpoint is due now; the next one is then later.
    pub(super) fn is_due(&mut self) -> bool {
        let now = Instant::now();
        if now < self.0 {
            return false;
        }
        self.0 = now + SAVE_EVERY;
        true
    }
}
