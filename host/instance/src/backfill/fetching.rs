//! The second stage of a job: looks up the PDS of each repo and reads the repos, both at the same time.
//!
//! One task keeps the queues and starts others for look-ups and repos. Repos beyond what the queues hold stay in the
//! database, so memory does not grow with the job.

use std::sync::Arc;

use tokio::task::JoinSet;
use tokio::time::Instant;

use super::accounts;
use super::failure::{Attempts, ErrorKind, Failure};
use super::growth::disk_is_full;
use super::hosts::{Added, Hosts, Task, Ticket};
use super::lookup::{self, pds_of};
use super::outcome::RunError;
use super::repo::{ReadError, Repo, RepoEnd};
use super::repo_reader::RepoReader;
use super::reporter::{Pace, Reporter};
use crate::settings::Settings;
use crate::settings::backfill::BackfillSettings;
use belvedere_protocol::atproto::Did;
use belvedere_storage::store::StoreError;
use belvedere_storage::store::backfill::{self, Checkpoint, Counters, FinishedRepo, Traffic};
use belvedere_storage::store::status::RepoStatus;

/// Repos of one PDS in memory.
const MAX_QUEUED_PER_HOST: usize = 1_000;

/// DIDs that are read from the database at a time, when fewer wait for their look-up.
const DIDS_PER_READ: usize = 500;

/// Repos that end before they are saved without waiting for the next checkpoint.
const MAX_UNSAVED: usize = 1_000;

/// Repos of all PDSs that are in memory before further PDSs wait in the database.
const MAX_QUEUED: usize = 20_000;

pub(super) struct Fetching<'a> {
    reporter: &'a Reporter,
    reader: Arc<RepoReader>,
    live_settings: &'a Settings,
    settings: BackfillSettings,
    lookups: Hosts<Lookup>,
    repos: Hosts<Repo>,
    tasks: JoinSet<Ended>,
    /// The last DID that was read from the database; `None` when all were.
    scanned: Option<String>,
    /// The content of the next checkpoint.
    unsaved: Checkpoint,
    /// The content of the last one.
    saved: (Counters, Traffic),
    pace: Pace,
    /// The reason why the job fails although repos are left.
    end: Option<Failure>,
}

#[derive(Debug)]
struct Lookup {
    did: Did,
    attempts: Attempts,
}

/// A task that has ended.
enum Ended {
    LookedUp(Ticket, Lookup, Result<String, Failure>),
    /// The account is gone, and so are its rows.
    Gone(Ticket, Did),
    Read(Ticket, Repo, Result<RepoEnd, StoreError>),
    Stopped,
}

impl<'a> Fetching<'a> {
    pub(super) fn new(reporter: &'a Reporter, reader: Arc<RepoReader>, live_settings: &'a Settings) -> Self {
        let settings = live_settings.backfill();
        Self {
            reporter,
            reader,
            live_settings,
            settings,
            lookups: Hosts::new(lookup::directory_bounds(&settings)),
            repos: Hosts::new(lookup::pds_bounds(&settings, MAX_QUEUED_PER_HOST)),
            tasks: JoinSet::new(),
            scanned: Some(String::new()),
            unsaved: Checkpoint::default(),
            saved: Default::default(),
            pace: Pace::new(),
            end: None,
        }
    }

    /// Reads all repos of the job that are left.
    pub(super) async fn run(mut self) -> Result<(), RunError> {
        for host in backfill::pending_hosts(&self.reader.db, self.reader.job).await? {
            self.repos.register(&host);
        }
        while !self.reader.stop.is_cancelled() {
            self.feed().await?;
            self.refill().await?;
            self.start();
            if self.pace.is_due() || self.unsaved.finished.len() >= MAX_UNSAVED {
                self.checkpoint().await?;
                self.take_settings();
                self.stop_on_full_disk().await;
                continue;
            }
            if self.tasks.is_empty()
                && self.scanned.is_none()
                && self.lookups.is_idle()
                && self.repos.is_idle()
            {
                self.checkpoint().await?;
                return Ok(());
            }
            let stop = self.reader.stop.clone();
            let cooled = [self.lookups.next_cooled(), self.repos.next_cooled()];
            let wake = cooled.into_iter().flatten().fold(self.pace.due(), Instant::min);
            tokio::select! {
                Some(ended) = self.tasks.join_next() => self.ended(ended?)?,
                () = tokio::time::sleep_until(wake) => {}
                () = stop.cancelled() => {}
            }
        }
        while let Some(ended) = self.tasks.join_next().await {
            self.ended(ended?)?;
        }
        self.checkpoint().await?;
        Err(self.end.map_or(RunError::Stopped, |failure| RunError::Failed(failure.text)))
    }

    /// Ends the job when little of the disk is left: what it reads may be of any size, and the stream needs the rest. Not a
    /// catch-up, without which changes would be missing.
    async fn stop_on_full_disk(&mut self) {
        if self.reader.changed_since.is_none()
            && let Some(failure) = disk_is_full(&self.reader.db).await
        {
            self.end = Some(failure);
            self.reader.stop.cancel();
        }
    }

    /// An admin may have changed the settings.
    fn take_settings(&mut self) {
        self.settings = self.live_settings.backfill();
        let BackfillSettings { concurrent_pds, concurrent_dids_per_pds, concurrent_resolution, .. } =
            self.settings;
        self.lookups.set_concurrency(concurrent_resolution as usize, concurrent_resolution as usize);
        self.repos.set_concurrency(concurrent_pds as usize, concurrent_dids_per_pds as usize);
    }

    /// Queues look-ups of repos whose PDS is unknown.
    async fn feed(&mut self) -> Result<(), RunError> {
        while let Some(after) = &self.scanned
            && self.lookups.queued() < DIDS_PER_READ
            && self.unsaved.finished.len() < MAX_UNSAVED
        {
            let RepoReader { db, job, .. } = &*self.reader;
            let dids = backfill::unresolved(db, *job, after, DIDS_PER_READ).await?;
            self.scanned = if dids.len() < DIDS_PER_READ { None } else { dids.last().cloned() };
            for text in dids {
                let Some(did) = self.parse(text) else { continue };
                let host = lookup::host_of(&did);
                let lookup = Lookup { did: did.clone(), attempts: Attempts::default() };
                if let Added::GivenUp(lookup, failure) = self.lookups.add(host, lookup) {
                    self.finish(&lookup.did, 0, Some(failure));
                }
            }
        }
        Ok(())
    }

    /// Loads repos of hosts whose repos in memory are done, or fails them if the host was given up.
    async fn refill(&mut self) -> Result<(), RunError> {
        while !self.reader.stop.is_cancelled()
            && self.repos.queued() < MAX_QUEUED
            && let Some(host) = self.repos.next_drained()
        {
            // So that repos that are done or have another PDS are not loaded again.
            self.checkpoint().await?;
            let RepoReader { db, job, .. } = &*self.reader;
            if let Some(Failure { kind, text, .. }) = self.repos.given_up(&host) {
                let failed = backfill::fail_host(db, *job, &host, kind.as_str(), &text).await?;
                self.reporter.failed(failed as i64);
                continue;
            }
            let dids = backfill::pending_of_host(db, *job, &host, MAX_QUEUED_PER_HOST).await?;
            let has_more = dids.len() == MAX_QUEUED_PER_HOST;
            for text in dids {
                if let Some(did) = self.parse(text) {
                    self.queue(&host, Repo::new(did));
                }
            }
            if has_more {
                self.repos.register(&host);
            }
        }
        Ok(())
    }

    /// Fails a repo whose stored text is not a DID, which does not occur.
    fn parse(&mut self, text: String) -> Option<Did> {
        let did = Did::try_from(text.as_str()).ok();
        if did.is_none() {
            let failure = Failure::new(ErrorKind::DidDocInvalid, "not a DID");
            self.reporter.failed(1);
            let error = Some((failure.kind.as_str(), failure.text));
            self.unsaved.finished.push(FinishedRepo { did: text, records: 0, error });
        }
        did
    }

    fn queue(&mut self, host: &str, repo: Repo) {
        if let Added::GivenUp(repo, failure) = self.repos.add(host, repo) {
            self.finish(&repo.did, repo.records(), Some(failure));
        }
    }

    /// Starts as much as may run.
    fn start(&mut self) {
        let now = Instant::now();
        while self.lookups.in_progress() < self.settings.concurrent_resolution as usize
            && let Some(task) = self.lookups.next(now)
        {
            self.tasks.spawn(look_up(Arc::clone(&self.reader), task));
        }
        while let Some(task) = self.repos.next(now) {
            self.tasks.spawn(read(Arc::clone(&self.reader), task));
        }
    }

    fn ended(&mut self, ended: Ended) -> Result<(), RunError> {
        match ended {
            Ended::LookedUp(ticket, lookup, Ok(endpoint)) => {
                self.lookups.succeeded(&ticket, 1);
                self.reporter.resolved(lookup.did.as_str(), &endpoint);
                self.unsaved.resolved.insert(lookup.did.as_str().to_owned(), endpoint.clone());
                self.queue(&endpoint, Repo::new(lookup.did));
            }
            Ended::LookedUp(ticket, lookup, Err(failure)) => self.lookup_failed(&ticket, lookup, failure),
            Ended::Gone(ticket, did) => {
                self.lookups.succeeded(&ticket, 1);
                self.finish(&did, 0, None);
            }
            Ended::Read(ticket, repo, end) => match end? {
                RepoEnd::Read => {
                    self.repos.succeeded(&ticket, repo.progress + ends(&repo));
                    self.reporter.fetched(repo.did.as_str(), &ticket.host, repo.records());
                    self.finish(&repo.did, repo.records(), None);
                }
                RepoEnd::Moved(endpoint) => {
                    self.repos.succeeded(&ticket, 1);
                    self.unsaved.resolved.insert(repo.did.as_str().to_owned(), endpoint.clone());
                    self.queue(&endpoint, repo);
                }
                RepoEnd::Failed(failure) => self.read_failed(&ticket, repo, failure),
                RepoEnd::Stopped => self.repos.succeeded(&ticket, 0),
            },
            Ended::Stopped => {}
        }
        Ok(())
    }

    fn lookup_failed(&mut self, ticket: &Ticket, mut lookup: Lookup, failure: Failure) {
        if !failure.kind.is_retryable() {
            self.lookups.succeeded(ticket, 1);
            return self.finish(&lookup.did, 0, Some(failure));
        }
        let (max_attempts, max_failures) = lookup::limits(&ticket.host, self.settings.max_attempts);
        let again = lookup.attempts.again(&failure, max_attempts);
        let (again, given_up) = if again { (Some(lookup), None) } else { (None, Some(lookup)) };
        let lost = self.lookups.failed(ticket, &failure, again, 0, max_failures, Instant::now());
        for lookup in lost.into_iter().chain(given_up) {
            self.finish(&lookup.did, 0, Some(failure.clone()));
        }
    }

    fn read_failed(&mut self, ticket: &Ticket, mut repo: Repo, failure: Failure) {
        if !failure.kind.is_retryable() {
            self.repos.succeeded(ticket, repo.progress + 1);
            return self.finish(&repo.did, repo.records(), Some(failure));
        }
        let again = repo.attempts.again(&failure, self.settings.max_attempts);
        let (given, max) = (repo.progress, lookup::MAX_HOST_FAILURES);
        let (again, given_up) = if again { (Some(repo), None) } else { (None, Some(repo)) };
        let lost = self.repos.failed(ticket, &failure, again, given, max, Instant::now());
        for repo in lost.into_iter().chain(given_up) {
            self.finish(&repo.did, repo.records(), Some(failure.clone()));
        }
    }

    /// A repo was read or has failed for good.
    fn finish(&mut self, did: &Did, records: i64, failure: Option<Failure>) {
        if let Some(Failure { kind, text, .. }) = &failure {
            metrics::counter!("belvedere_backfill_repos_total", "result" => kind.as_str()).increment(1);
            tracing::debug!(%did, kind = kind.as_str(), error = text, "a repo could not be read");
            self.reporter.failed(1);
        } else {
            self.reporter.completed();
            metrics::counter!("belvedere_backfill_repos_total", "result" => RepoStatus::Completed.as_str())
                .increment(1);
        }
        let error = failure.map(|failure| (failure.kind.as_str(), failure.text));
        self.unsaved.finished.push(FinishedRepo { did: did.as_str().to_owned(), records, error });
    }

    async fn checkpoint(&mut self) -> Result<(), RunError> {
        let (counters, traffic) = (self.reporter.counters(), self.reporter.meter.traffic());
        let saved = Checkpoint { counters: self.saved.0, traffic: self.saved.1, ..Checkpoint::default() };
        (self.unsaved.counters, self.unsaved.traffic) = (counters, traffic);
        if self.unsaved != saved {
            backfill::checkpoint(&self.reader.db, self.reader.job, &self.unsaved).await?;
            self.unsaved = Checkpoint::default();
            self.saved = (counters, traffic);
            self.reporter.send_counters();
        }
        Ok(())
    }
}

async fn look_up(reader: Arc<RepoReader>, task: Task<Lookup>) -> Ended {
    let (ticket, lookup) = task.into_parts();
    // A retry must not repeat what was wrong.
    let found = pds_of(&reader.resolver, &lookup.did, reader.is_retry);
    let endpoint = match reader.stop.run_until_cancelled(found).await {
        None => return Ended::Stopped,
        Some(Ok(endpoint)) => Ok(endpoint),
        Some(Err(failure)) => match accounts::remove_gone(&reader, &lookup.did, failure).await {
            Ok(()) => return Ended::Gone(ticket, lookup.did),
            Err(ReadError::Failed(failure)) => Err(failure),
            Err(_) => return Ended::Stopped,
        },
    };
    Ended::LookedUp(ticket, lookup, endpoint)
}

async fn read(reader: Arc<RepoReader>, task: Task<Repo>) -> Ended {
    let (ticket, mut repo) = task.into_parts();
    let before = repo.given();
    let end = reader.read(&ticket.host, &mut repo).await;
    repo.progress = u64::try_from(repo.given() - before).unwrap_or(0);
    Ended::Read(ticket, repo, end)
}

/// The cost of a repo beside its records: also a repo without any takes a request, and two for each collection. Without
/// it, a large PDS with a rate limit would be given up.
fn ends(repo: &Repo) -> u64 {
    1 + repo.listings.len() as u64
}
