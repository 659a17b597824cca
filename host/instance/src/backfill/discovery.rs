//! The first stage of a job: finds the repos to read. Those that the index has records of come first: the relay does
//! not list every repo, and none whose records were all deleted. If the relay can only list all of its repos, which
//! takes hours, those that are known by then are read before.

use std::collections::HashSet;
use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::StreamExt as _;
use tokio::sync::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::failure::{ErrorKind, Failure, MAX_WAIT, Missing};
use super::growth::Growth;
use super::outcome::RunError;
use super::rate_limit::RateLimit;
use super::reporter::{Pace, Reporter};
use super::request::{RepoList, RepoPage, Server};
use belvedere_protocol::atproto::{Did, Nsid};
use belvedere_storage::store::Db;
use belvedere_storage::store::backfill::{self, ActiveJob, CATCH_UP, Indexed};

/// Collections that are listed at the same time (admin-api.md §12.1).
const CONCURRENT_COLLECTIONS: usize = 5;

/// Attempts at one page of the relay's list. All repos of a collection depend on it, so there are more than for a repo.
const MAX_ATTEMPTS: u32 = 6;

/// Accounts of the index that are added in one statement: few enough not to delay other writers.
const INDEXED_PER_STEP: usize = 2_000;

/// Pages in a row without a repo that the job does not have yet. Lists of different collections name the same repos, so
/// this is more than the pages of a large collection: ten million repos.
const MAX_PAGES_WITHOUT_NEW: u32 = 10_000;

/// The wait after the first failed attempt; doubles with each further one.
const FIRST_WAIT: Duration = Duration::from_millis(500);

/// Lists the repos of collections at the relay.
pub(super) struct Discovery<'a> {
    pub(super) db: &'a Db,
    pub(super) relay: Server<'a>,
    pub(super) growth: Mutex<Growth<'a>>,
    pub(super) reporter: &'a Reporter,
    pub(super) stop: &'a CancellationToken,
}

/// The reason why a list is incomplete.
type Incomplete = Failure;

/// Results of the search for repos beside the repos.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// The lists that are incomplete, in a text for admins.
    pub(super) incomplete: Vec<String>,
    /// The relay does not list repos by collection: [`Discovery::add_all`] adds all of its repos.
    pub(super) is_unlisted: bool,
}

impl RepoList<'_> {
    /// The name under which the position in the list is stored. That of all repos is not an NSID, so no collection has
    /// it.
    fn name(&self) -> &str {
        match self {
            Self::Of(collection) => collection.as_str(),
            Self::All => "(repos)",
        }
    }
}

impl Discovery<'_> {
    /// Adds the repos of the job that the index has or the relay lists by collection.
    pub(super) async fn run(&self, job: &ActiveJob, collections: &[Nsid]) -> Result<Found, RunError> {
        let mut found = Found::default();
        if job.is_discovered {
            return Ok(found);
        }
        if let Some(did) = &job.did {
            let did =
                Did::try_from(did.as_str()).map_err(|_| RunError::Failed(format!("{did} is not a DID")))?;
            if backfill::add_repo(self.db, job.seq, &did).await? {
                self.reporter.discovered(vec![did.as_str().to_owned()]);
            }
            return Ok(found);
        }
        if job.kind == CATCH_UP {
            self.add_indexed(job.seq, Indexed::Known).await?;
        } else {
            for collection in collections {
                self.add_indexed(job.seq, Indexed::ActiveWith(collection)).await?;
            }
        }
        let lists: Vec<_> = collections.iter().map(RepoList::Of).collect();
        for (list, failure) in self.add_listed(job.seq, &lists).await? {
            if failure.missing == Some(Missing::Method) {
                if !std::mem::replace(&mut found.is_unlisted, true) {
                    let (job, error) = (&job.id, failure.text);
                    tracing::warn!(
                        job,
                        error,
                        "the relay has no listReposByCollection, so every repo that it lists is read"
                    );
                }
            } else {
                let (name, why) = (list.name(), failure.text);
                found.incomplete.push(format!("the relay did not list all repos of {name}: {why}"));
            }
        }
        self.reporter.save().await?;
        Ok(found)
    }

    /// Adds all repos of the relay.
    pub(super) async fn add_all(&self, job: &ActiveJob, found: &mut Found) -> Result<(), RunError> {
        for (_, failure) in self.add_listed(job.seq, &[RepoList::All]).await? {
            found.incomplete.push(format!("the relay did not list all of its repos: {}", failure.text));
        }
        Ok(self.reporter.save().await?)
    }

    /// Adds accounts of the index.
    async fn add_indexed(&self, job: i64, accounts: Indexed<'_>) -> Result<(), RunError> {
        while let Some(added) = backfill::add_indexed_repos(self.db, job, accounts, INDEXED_PER_STEP).await? {
            self.reporter.discovered(added);
            if self.stop.is_cancelled() {
                return Err(RunError::Stopped);
            }
        }
        Ok(())
    }

    /// Adds the repos of lists of the relay, from where an earlier run stopped. Returns those that are incomplete.
    async fn add_listed<'l>(
        &self,
        job: i64,
        lists: &[RepoList<'l>],
    ) -> Result<Vec<(RepoList<'l>, Incomplete)>, RunError> {
        let stored = backfill::discovery(self.db, job).await?;
        if stored.iter().any(|progress| lists.iter().any(|list| progress.collection == list.name())) {
            self.growth.lock().await.sample_soon();
        }
        let pace = Mutex::new(Pace::new());
        let mut reads: Vec<BoxFuture<'_, _>> = Vec::new();
        for list in lists {
            let progress = stored.iter().find(|progress| progress.collection == list.name());
            if !progress.is_some_and(|progress| progress.is_done) {
                let cursor = progress.and_then(|progress| progress.cursor.clone());
                let read = self.list(job, *list, cursor, &pace);
                reads.push(Box::pin(async { read.await.map(|ended| (*list, ended)) }));
            }
        }
        let mut reads = futures_util::stream::iter(reads).buffer_unordered(CONCURRENT_COLLECTIONS);
        let mut incomplete = Vec::new();
        while let Some(read) = reads.next().await {
            let (list, failure) = read?;
            incomplete.extend(failure.map(|failure| (list, failure)));
        }
        Ok(incomplete)
    }

    /// Adds the repos of one list. Returns why it is incomplete.
    async fn list(
        &self,
        job: i64,
        list: RepoList<'_>,
        mut cursor: Option<String>,
        pace: &Mutex<Pace>,
    ) -> Result<Option<Incomplete>, RunError> {
        let hasher = RandomState::new();
        let mut cursors: HashSet<u64> = cursor.iter().map(|cursor| hasher.hash_one(cursor)).collect();
        let (mut without_new, mut has_warned) = (0, false);
        loop {
            if let Some(why) = self.refusal().await? {
                return Ok(Some(why));
            }
            let listed = match repo_page(&self.relay, self.stop, list, cursor.as_deref()).await? {
                Ok(listed) => listed,
                Err(failure) => return Ok(Some(failure)),
            };
            let RepoPage { cursor: next, dids, skipped } = listed;
            if skipped > 0 {
                metrics::counter!("belvedere_backfill_relay_entries_skipped_total").increment(skipped as u64);
                if !std::mem::replace(&mut has_warned, true) {
                    tracing::warn!(
                        list = list.name(),
                        skipped,
                        "the relay lists entries without a valid DID; they are skipped"
                    );
                }
            }
            let dids: Vec<String> = dids.iter().map(Did::to_string).collect();
            let has_new = match self.add_page(job, (list.name(), &dids, next.as_deref())).await? {
                Ok(has_new) => has_new,
                Err(why) => return Ok(Some(why)),
            };
            without_new = if has_new { 0 } else { without_new + 1 };
            if pace.lock().await.is_due() {
                self.reporter.save().await?;
            }
            let Some(next) = next else { return Ok(None) };
            if !cursors.insert(hasher.hash_one(&next)) {
                return Ok(Some(Failure::other("it gave the same cursor again")));
            }
            if without_new >= MAX_PAGES_WITHOUT_NEW {
                return Ok(Some(Failure::other("its list does not end")));
            }
            cursor = Some(next);
        }
    }

    /// The reason why the job's lists are not read any further.
    async fn refusal(&self) -> Result<Option<Incomplete>, RunError> {
        let mut growth = self.growth.lock().await;
        let refusal = growth.refusal(self.reporter.counters().total_repos.unsigned_abs());
        self.stop.run_until_cancelled(refusal).await.ok_or(RunError::Stopped)
    }

    /// Adds the repos of a page of the list with this name, whole. Returns whether the job did not have one of them yet, or
    /// why its lists are not read any further.
    async fn add_page(
        &self,
        job: i64,
        (list, dids, next): (&str, &[String], Option<&str>),
    ) -> Result<Result<bool, Incomplete>, RunError> {
        let mut growth = self.growth.lock().await;
        // Another list may have ended the job's lists while this page was requested.
        if let Some(why) = growth.refusal(self.reporter.counters().total_repos.unsigned_abs()).await {
            return Ok(Err(why));
        }
        let added = backfill::add_repos(self.db, job, list, dids, next).await?;
        self.reporter.discovered(added.clone());
        let sampled = self.stop.run_until_cancelled(growth.sample(&added)).await;
        Ok(match sampled.ok_or(RunError::Stopped)? {
            Some(why) => Err(why),
            None => Ok(!added.is_empty()),
        })
    }
}

/// One page of a list of the relay, with retries. Answers of 429 are waited out. That the relay does not have the list is
/// concluded from the name of an error, or from a router that denies the path of the first page twice.
pub(super) async fn repo_page(
    relay: &Server<'_>,
    stop: &CancellationToken,
    list: RepoList<'_>,
    cursor: Option<&str>,
) -> Result<Result<RepoPage, Failure>, RunError> {
    let (mut limit, mut failures, mut wait) = (RateLimit::default(), 0, FIRST_WAIT);
    let mut denials = 0;
    loop {
        let page = stop.run_until_cancelled(relay.repos(list, cursor)).await;
        let failure = match page.ok_or(RunError::Stopped)? {
            Ok(page) => return Ok(Ok(page)),
            Err(failure) if failure.missing == Some(Missing::Path) => {
                denials += 1;
                match (denials, cursor) {
                    (1, _) => failure,
                    (_, None) => return Ok(Err(failure.repeated())),
                    // The relay has given other pages of the list.
                    (_, Some(_)) => return Ok(Err(Failure { missing: None, ..failure })),
                }
            }
            Err(failure) if failure.kind.is_retryable() && failure.missing.is_none() => failure,
            Err(failure) => return Ok(Err(failure)),
        };
        let pause = if failure.kind == ErrorKind::RateLimited {
            limit.wait(&failure, Instant::now())
        } else {
            failures += 1;
            let pause = wait.max(failure.wait.unwrap_or_default()).min(MAX_WAIT);
            wait = (wait * 2).min(MAX_WAIT);
            (failures < MAX_ATTEMPTS).then_some(pause)
        };
        let Some(pause) = pause else { return Ok(Err(failure)) };
        tracing::warn!(
            list = list.name(),
            error = failure.text,
            "the relay did not list repos; trying again"
        );
        stop.run_until_cancelled(tokio::time::sleep(pause)).await.ok_or(RunError::Stopped)?;
    }
}
