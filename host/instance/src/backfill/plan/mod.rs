//! Estimates what a backfill would cost, from the relay's list and a sample of the repos. Stores nothing.

mod estimate;
mod sample;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::{self, StreamExt as _};
use schemars::JsonSchema;
use serde::Serialize;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout, timeout_at};

use self::estimate::estimate;
use self::sample::{Sample, sample};
use super::failure::{Failure, Missing};
use super::meter::Meter;
use super::request::{RepoList, Server};
use crate::identity::Resolver;
use crate::settings::backfill::BackfillSettings;
use belvedere_base::clock::Clock;
use belvedere_protocol::atproto::{Did, Nsid};
use belvedere_storage::store::Db;
use belvedere_storage::store::backfill::{self, Indexed};
use belvedere_web::net::Client;

/// Repos that are counted: what a few seconds are enough for. With more, the plan is a lower bound.
const MAX_REPOS: usize = 20_000;

/// Repos that are looked at. The costs of repos differ so much that a few more would not make the plan better.
const SAMPLES: usize = 24;

/// Repos that are looked at at the same time.
const CONCURRENT_SAMPLES: usize = 8;

/// Time for the relay's list, and for the sample. Together less than the ten seconds that clients wait for an answer.
const LIST_TIME: Duration = Duration::from_secs(4);
const SAMPLE_TIME: Duration = Duration::from_secs(4);

/// Plans that are made at the same time: each sends a hundred requests to others.
const CONCURRENT_PLANS: usize = 2;

/// The services that a planner needs from the rest of the server.
#[derive(Clone, Debug)]
pub struct Planner {
    pub db: Db,
    pub net: Client,
    pub resolver: Resolver,
    pub clock: Clock,
    /// Without a trailing slash.
    pub relay_url: String,
    pub settings: BackfillSettings,
}

/// The expected cost of a backfill.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "BackfillEstimate")]
pub struct Plan {
    pub repos: u64,
    /// There are more repos than were counted; so all other numbers are too low.
    pub repos_at_least: bool,
    /// The relay does not list repos by collection: every repo that it has would be read, with and without records of the
    /// collections.
    pub lists_all_repos: bool,
    /// Repos that were looked at; the estimates come from those that could be read.
    pub sampled: u64,
    /// Repos of the sample that could not be read.
    pub unreachable: u64,
    pub records: u64,
    /// A repo of the sample has a long collection whose record keys are no times, so its size is a guess: the records, requests,
    /// bytes and seconds may be several times as many.
    pub records_at_least: bool,
    /// Requests to PDSs.
    pub requests: u64,
    /// Bytes of their answers, after decompression.
    pub bytes: u64,
    pub seconds: u64,
    pub sources: Sources,
}

/// The share of each source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "PlanSources")]
pub struct Sources {
    /// Repos that are read in pages only.
    pub pages: Share,
    /// Repos that are read from a CAR, after their first pages.
    pub car: Share,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "PlanShare")]
pub struct Share {
    pub repos: u64,
    pub requests: u64,
    pub bytes: u64,
}

/// The repos of a plan.
struct Listed {
    dids: BTreeSet<Did>,
    is_complete: bool,
    /// Without regard to collections.
    is_of_all: bool,
    took: Duration,
}

impl Planner {
    /// Plans a backfill of `collections`, of one repo or of all that the index has and the relay lists. Takes at most eight seconds.
    ///
    /// # Errors
    /// Returns the reason why the relay does not list repos, in a text for admins.
    pub async fn plan(&self, collections: &[Nsid], did: Option<Did>) -> Result<Plan, String> {
        let listed = match did {
            Some(did) => {
                let dids = BTreeSet::from([did]);
                Listed { dids, is_complete: true, is_of_all: false, took: Duration::ZERO }
            }
            None => self
                .list(collections)
                .await
                .map_err(|failure| format!("the relay does not list repos: {}", failure.text))?,
        };
        // Spread over the whole list.
        let step = listed.dids.len().div_ceil(SAMPLES).max(1);
        let chosen: Vec<Did> = listed.dids.iter().step_by(step).cloned().collect();
        let samples = self.samples(&chosen, collections).await;
        Ok(estimate(&listed, chosen.len(), &samples, collections.len(), self.settings))
    }

    async fn list(&self, collections: &[Nsid]) -> Result<Listed, Failure> {
        let (net, meter) = (self.net.trusted(), Meter::default());
        let relay = Server { net: &net, clock: &self.clock, origin: &self.relay_url, meter: &meter };
        let started = Instant::now();
        let (mut dids, mut is_of_all) = (BTreeSet::new(), false);
        let listed = timeout(LIST_TIME, async {
            for collection in collections {
                self.add_indexed(collection, &mut dids).await?;
                match add_repos(&relay, RepoList::Of(collection), &mut dids).await {
                    Err(failure) if failure.missing == Some(Missing::Method) => is_of_all = true,
                    listed => listed?,
                }
            }
            if is_of_all {
                add_repos(&relay, RepoList::All, &mut dids).await?;
            }
            Ok(())
        });
        // The count so far is still useful.
        let is_complete = match listed.await {
            Ok(Err(failure)) if dids.is_empty() => return Err(failure),
            Err(_) if dids.is_empty() => return Err(Failure::other("it did not answer in time")),
            Ok(Ok(())) => dids.len() < MAX_REPOS,
            Ok(Err(_)) | Err(_) => false,
        };
        Ok(Listed { dids, is_complete, is_of_all, took: started.elapsed() })
    }

    /// Adds the accounts of the index that a backfill of the collection visits, until there are [`MAX_REPOS`].
    async fn add_indexed(&self, collection: &Nsid, dids: &mut BTreeSet<Did>) -> Result<(), Failure> {
        let indexed = backfill::accounts(&self.db, Indexed::ActiveWith(collection), 0, MAX_REPOS).await;
        let indexed = indexed.map_err(|error| {
            tracing::warn!(%error, "can't read the accounts of the index for a plan");
            Failure::other("the database failed; try again")
        })?;
        let room = MAX_REPOS.saturating_sub(dids.len());
        dids.extend(indexed.iter().filter_map(|one| Did::try_from(one.did.as_str()).ok()).take(room));
        Ok(())
    }

    async fn samples(&self, dids: &[Did], collections: &[Nsid]) -> Vec<Sample> {
        let deadline = Instant::now() + SAMPLE_TIME;
        let mut samples: Vec<BoxFuture<'_, Option<Sample>>> = Vec::new();
        for did in dids {
            let sample = timeout_at(deadline, sample(self, did, collections));
            samples.push(Box::pin(async { sample.await.ok()?.ok() }));
        }
        stream::iter(samples)
            .buffer_unordered(CONCURRENT_SAMPLES)
            .filter_map(std::future::ready)
            .collect()
            .await
    }
}

/// Adds the repos of a list, until there are [`MAX_REPOS`].
async fn add_repos(relay: &Server<'_>, list: RepoList<'_>, dids: &mut BTreeSet<Did>) -> Result<(), Failure> {
    let mut cursor: Option<String> = None;
    while dids.len() < MAX_REPOS {
        let page = match relay.repos(list, cursor.as_deref()).await {
            // A backfill does the same.
            Err(failure) if cursor.is_none() && failure.missing == Some(Missing::Path) => {
                relay.repos(list, None).await.map_err(Failure::repeated)?
            }
            page => page?,
        };
        dids.extend(page.dids);
        if page.cursor.is_none() || page.cursor == cursor {
            break;
        }
        cursor = page.cursor;
    }
    Ok(())
}

/// Limits how many plans are made at the same time.
#[derive(Clone, Debug)]
pub struct PlanPermits(Arc<Semaphore>);

impl Default for PlanPermits {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(CONCURRENT_PLANS)))
    }
}

impl PlanPermits {
    /// A permit for one plan, until it is dropped; `None` when all are taken.
    pub fn take(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.0).try_acquire_owned().ok()
    }
}
