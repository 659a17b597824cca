//! Bounds the lists of repos that a relay gives. It may name repos that do not exist without an end, and each is a row.

use std::collections::BTreeMap;
use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use tokio::time::timeout;

use super::failure::Failure;
use crate::identity::{IdentityError, Resolver};
use belvedere_protocol::atproto::Did;
use belvedere_storage::store::Db;

/// Listed repos after which some are looked up for the first time; again whenever their number has doubled. Fewer do no
/// harm.
const FIRST_SAMPLE: u64 = 1_000;

/// Repos that are looked up, and how many of them at least must not exist for a conclusion.
const SAMPLE: usize = 24;
const MIN_ABSENT: usize = 6;

/// Time for a sample. Repos that are not looked up by then count neither way.
const SAMPLE_TIME: Duration = Duration::from_secs(20);

/// The free share of the disk at which no more repos are added, in percent, and its upper bound in bytes: what the stream
/// takes in some hours.
const FREE_PERCENT: u64 = 10;
const FREE_BYTES: u64 = 1 << 30;

/// The bounds of the lists of one job. Each page is added while its lock is held, so that lists that are read at the same
/// time do not add more together than one would.
pub(super) struct Growth<'a> {
    db: &'a Db,
    resolver: &'a Resolver,
    /// The limit of the job.
    max_repos: u64,
    /// Repos that the lists have added.
    listed: u64,
    next_sample: u64,
    /// Some of those since the last sample, by their hashes: the lowest ones, so that the relay can't choose them by their
    /// permit or their page.
    chosen: BTreeMap<u64, String>,
    hasher: RandomState,
    /// The reason why no list is read any further.
    end: Option<Failure>,
}

impl<'a> Growth<'a> {
    pub(super) fn new(db: &'a Db, resolver: &'a Resolver, max_repos: u64) -> Self {
        let (chosen, hasher) = (BTreeMap::new(), RandomState::new());
        Self { db, resolver, max_repos, listed: 0, next_sample: FIRST_SAMPLE, chosen, hasher, end: None }
    }

    /// The job is continued. A list that was refused before must not add as many repos again, so the first are looked up.
    pub(super) fn sample_soon(&mut self) {
        self.next_sample = self.next_sample.min(1);
    }

    /// The reason why no page may be added to the job, which has `total` repos.
    pub(super) async fn refusal(&mut self, total: u64) -> Option<Failure> {
        if self.end.is_none() {
            self.end = if total >= self.max_repos {
                Some(Failure::other(format!(
                    "the backfill has {total} repos, and may have {} (max_repos, or the setting backfill_max_repos)",
                    self.max_repos
                )))
            } else {
                disk_is_full(self.db).await
            };
        }
        self.end.clone()
    }

    /// Looks some repos up after a page has added repos to the job, if it is time to. Returns why no more are added.
    pub(super) async fn sample(&mut self, added: &[String]) -> Option<Failure> {
        self.listed += added.len() as u64;
        self.choose(added);
        if self.listed < self.next_sample {
            return None;
        }
        self.next_sample = self.listed * 2;
        let chosen = std::mem::take(&mut self.chosen);
        self.end = self.are_invented(chosen.into_values().collect()).await;
        self.end.clone()
    }

    fn choose(&mut self, added: &[String]) {
        for did in added {
            let hash = self.hasher.hash_one(did);
            if self.chosen.len() < SAMPLE
                || self.chosen.last_key_value().is_some_and(|(last, _)| hash < *last)
            {
                self.chosen.insert(hash, did.clone());
            }
            if self.chosen.len() > SAMPLE {
                self.chosen.pop_last();
            }
        }
    }

    /// Looks up some of the repos. Only an answer of the directory, or of a did:web's host, that there is no such DID counts
    /// against the relay.
    async fn are_invented(&self, chosen: Vec<String>) -> Option<Failure> {
        let dids: Vec<Did> = chosen.iter().filter_map(|did| Did::try_from(did.as_str()).ok()).collect();
        let mut looks: Vec<BoxFuture<'_, _>> = Vec::new();
        for did in &dids {
            looks.push(Box::pin(self.resolver.resolve(did)));
        }
        let looks = FuturesUnordered::from_iter(looks);
        let (mut present, mut absent) = (0_usize, 0);
        let counted = looks.for_each(|look| {
            match look {
                Ok(_) | Err(IdentityError::Invalid(_)) => present += 1,
                Err(IdentityError::NotFound) => absent += 1,
                Err(_) => {}
            }
            std::future::ready(())
        });
        // The repos that were looked up in time count.
        let _ = timeout(SAMPLE_TIME, counted).await;
        (absent > present && absent >= MIN_ABSENT).then(|| {
            let looked_up = present + absent;
            Failure::other(format!("{absent} of {looked_up} repos that were looked up do not exist"))
        })
    }
}

/// The reason why a job must not add to the database: little of its disk is left.
pub(super) async fn disk_is_full(db: &Db) -> Option<Failure> {
    let space = db.disk_space().await?;
    let needed = (space.total / 100 * FREE_PERCENT).min(FREE_BYTES);
    (space.free < needed).then(|| {
        let (free, needed) = (space.free >> 20, needed >> 20);
        Failure::other(format!("the disk of the database has {free} MiB left, and {needed} are kept free"))
    })
}
