//! The first stage of a job: finds the repos to read.

use std::collections::HashSet;
use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::StreamExt as _;
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use super::failure::{Failure, MAX_WAIT};
use super::outcome::RunError;
use super::reporter::{Pace, Reporter};
use super::request::{RepoPage, Server};
use crate::atproto::{Did, Nsid};
use crate::store::Db;
use crate::store::backfill::{self, ActiveJob};

/// Collections that are listed at the same time (admin-api.md §12.1).
const CONCURRENT_COLLECTIONS: usize = 5;

/// Attempts at one page of the relay's list. All repos of a collection depend on it, so there are more than for a repo.
const MAX_ATTEMPTS: u32 = 6;

/// Pages in a row without a repo that the job does not have yet. Lists of different collections name the same repos, so
/// this is more than the pages of a large collection: ten million repos.
const MAX_PAGES_WITHOUT_NEW: u32 = 10_000;

/// The wait after the first failed attempt; doubles with each further one.
const FIRST_WAIT: Duration = Duration::from_millis(500);

/// Lists the repos of collections at the relay.
pub(super) struct Discovery<'a> {
    pub(super) db: &'a Db,
    pub(super) relay: Server<'a>,
    pub(super) reporter: &'a Reporter,
    pub(super) stop: &'a CancellationToken,
}

impl Discovery<'_> {
    /// Adds the repos of the job. Returns what could not be listed.
    pub(super) async fn run(
        &self,
        job: &ActiveJob,
        collections: &[Nsid],
    ) -> Result<Option<String>, RunError> {
        if job.is_discovered {
            return Ok(None);
        }
        if let Some(did) = &job.did {
            let did =
                Did::try_from(did.as_str()).map_err(|_| RunError::Failed(format!("{did} is not a DID")))?;
            if backfill::add_repo(self.db, job.seq, &did).await? {
                self.reporter.discovered(vec![did.as_str().to_owned()]);
            }
            return Ok(None);
        }
        let stored = backfill::discovery(self.db, job.seq).await?;
        let pace = Mutex::new(Pace::new());
        let mut lists: Vec<BoxFuture<'_, _>> = Vec::new();
        for collection in collections {
            let progress = stored.iter().find(|progress| progress.collection == collection.as_str());
            if !progress.is_some_and(|progress| progress.is_done) {
                let cursor = progress.and_then(|progress| progress.cursor.clone());
                lists.push(Box::pin(self.list(job.seq, collection, cursor, &pace)));
            }
        }
        let mut lists = futures_util::stream::iter(lists).buffer_unordered(CONCURRENT_COLLECTIONS);
        let mut failures: Vec<String> = Vec::new();
        while let Some(incomplete) = lists.next().await {
            failures.extend(incomplete?);
        }
        self.reporter.save().await?;
        Ok((!failures.is_empty()).then(|| failures.join("; ")))
    }

    /// Adds the repos of one collection. Returns why the list is incomplete.
    async fn list(
        &self,
        job: i64,
        collection: &Nsid,
        mut cursor: Option<String>,
        pace: &Mutex<Pace>,
    ) -> Result<Option<String>, RunError> {
        let incomplete =
            |why: &str| Ok(Some(format!("the relay did not list all repos of {collection}: {why}")));
        let hasher = RandomState::new();
        let mut cursors: HashSet<u64> = cursor.iter().map(|cursor| hasher.hash_one(cursor)).collect();
        let mut without_new = 0;
        loop {
            let listed = match self.page(collection, cursor.as_deref()).await? {
                Ok(listed) => listed,
                Err(failure) => return incomplete(&failure.text),
            };
            let is_empty = listed.repos.is_empty();
            let dids = listed.repos.into_iter().filter(|repo| Did::is_valid(&repo.did));
            let dids: Vec<String> = dids.map(|repo| repo.did).collect();
            let next = listed.cursor.filter(|next| !next.is_empty() && !is_empty);
            let added = backfill::add_repos(self.db, job, collection, &dids, next.as_deref()).await?;
            without_new = if added.is_empty() { without_new + 1 } else { 0 };
            self.reporter.discovered(added);
            if pace.lock().await.is_due() {
                self.reporter.save().await?;
            }
            match next {
                None => return Ok(None),
                Some(next) if !cursors.insert(hasher.hash_one(&next)) => {
                    return incomplete("it gave the same cursor again");
                }
                Some(_) if without_new >= MAX_PAGES_WITHOUT_NEW => {
                    return incomplete("its list does not end");
                }
                next => cursor = next,
            }
        }
    }

    /// One page, with retries.
    async fn page(
        &self,
        collection: &Nsid,
        cursor: Option<&str>,
    ) -> Result<Result<RepoPage, Failure>, RunError> {
        let mut wait = FIRST_WAIT;
        for attempt in 1.. {
            let page = self.stop.run_until_cancelled(self.relay.repos(collection, cursor)).await;
            match page.ok_or(RunError::Stopped)? {
                Err(failure) if failure.kind.is_retryable() && attempt < MAX_ATTEMPTS => {
                    tracing::warn!(%collection, error = failure.text, "the relay did not list repos; trying again");
                    let wait = wait.max(failure.wait.unwrap_or_default()).min(MAX_WAIT);
                    self.stop.run_until_cancelled(tokio::time::sleep(wait)).await.ok_or(RunError::Stopped)?;
                }
                ended => return Ok(ended),
            }
            wait = (wait * 2).min(MAX_WAIT);
        }
        Err(RunError::Stopped)
    }
}
