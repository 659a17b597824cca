//! Chooses the repos to compare: all, or a random sample, of those that the index or the relay has.

use std::collections::{BTreeMap, HashSet};

use tokio_util::sync::CancellationToken;

use super::super::discovery::repo_page;
use super::super::failure::Failure;
use super::super::meter::Meter;
use super::super::outcome::RunError;
use super::super::request::{RepoList, Server};
use super::{Verifier, VerifyError};
use belvedere_base::random::Random;
use belvedere_protocol::atproto::{Did, Nsid};
use belvedere_protocol::crypto::sha256;
use belvedere_storage::store::backfill::{self, Indexed};
use belvedere_storage::store::{Db, StoreError};

/// Repos that can be compared at a time; their DIDs are kept in memory.
const MAX_REPOS: usize = 5_000_000;

/// Pages of one list of the relay: ten million repos.
const MAX_PAGES: usize = 10_000;

/// Accounts of the index that are read at a time.
const ACCOUNTS_PER_READ: usize = 2_000;

/// Every DID has a random number, the same whenever it is added: the sample has those with the lowest. So the index and
/// the relay can both list a DID, and only the sample is kept in memory.
#[derive(Debug)]
pub(super) struct Selection {
    size: usize,
    is_sample: bool,
    key: u64,
    chosen: BTreeMap<u64, Did>,
}

impl Selection {
    pub(super) fn new(sample: Option<usize>, random: &Random) -> Self {
        let size = sample.unwrap_or(MAX_REPOS + 1).min(MAX_REPOS + 1);
        Self { size, is_sample: sample.is_some(), key: random.u64(), chosen: BTreeMap::new() }
    }

    fn add(&mut self, did: Did) {
        let mut input = self.key.to_le_bytes().to_vec();
        input.extend_from_slice(did.as_str().as_bytes());
        let number = sha256(&input).first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        self.chosen.insert(number, did);
        if self.chosen.len() > self.size {
            self.chosen.pop_last();
        }
    }

    /// Fails when not all repos were kept although all were asked for.
    pub(super) fn check(&self) -> Result<(), VerifyError> {
        if !self.is_sample && self.chosen.len() > MAX_REPOS {
            return Err(VerifyError::TooMany(MAX_REPOS));
        }
        Ok(())
    }

    pub(super) fn into_dids(self) -> Vec<Did> {
        self.chosen.into_values().collect()
    }

    /// Adds the accounts with records of a collection in the index.
    pub(super) async fn add_indexed(&mut self, db: &Db, collection: &Nsid) -> Result<(), StoreError> {
        let mut after = 0;
        loop {
            let accounts =
                backfill::accounts(db, Indexed::With(collection), after, ACCOUNTS_PER_READ).await?;
            let is_last = accounts.len() < ACCOUNTS_PER_READ;
            after = accounts.last().map_or(after, |account| account.id);
            let dids = accounts.into_iter().filter_map(|account| Did::try_from(account.did.as_str()).ok());
            dids.for_each(|did| self.add(did));
            if is_last {
                return Ok(());
            }
        }
    }

    /// Adds the repos of a list of the relay. Returns why it is incomplete.
    pub(super) async fn add_listed(
        &mut self,
        verifier: &Verifier,
        list: RepoList<'_>,
        stop: &CancellationToken,
    ) -> Result<Option<Failure>, RunError> {
        let Verifier { net, clock, relay_url, .. } = verifier;
        let meter = Meter::default();
        let relay = Server { net: &net.trusted(), clock, origin: relay_url, meter: &meter };
        let mut cursor: Option<String> = None;
        let mut cursors = HashSet::new();
        let mut has_warned = false;
        loop {
            let page = match repo_page(&relay, stop, list, cursor.as_deref()).await? {
                Ok(page) => page,
                Err(failure) => return Ok(Some(failure)),
            };
            if page.skipped > 0 && !std::mem::replace(&mut has_warned, true) {
                tracing::warn!(
                    skipped = page.skipped,
                    "the relay lists entries without a valid DID; they are skipped"
                );
            }
            page.dids.into_iter().for_each(|did| self.add(did));
            let Some(next) = page.cursor else { return Ok(None) };
            if !cursors.insert(sha256(next.as_bytes())) {
                return Ok(Some(Failure::other("it gave the same cursor again")));
            }
            if cursors.len() >= MAX_PAGES {
                return Ok(Some(Failure::other("its list does not end")));
            }
            cursor = Some(next);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn did(n: usize) -> Did {
        Did::try_from(format!("did:plc:{n}").as_str()).unwrap()
    }

    fn sample(size: usize, seed: u64, order: impl Iterator<Item = usize>) -> Vec<Did> {
        let mut selection = Selection::new(Some(size), &Random::seeded(seed));
        order.for_each(|n| selection.add(did(n)));
        selection.check().unwrap();
        selection.into_dids()
    }

    #[test]
    fn a_sample_depends_on_the_seed_and_not_on_the_order_or_on_repetitions() {
        let once = sample(10, 1, 0..500);
        assert_eq!(once.len(), 10);
        assert_eq!(once, sample(10, 1, (0..500).rev().chain(100..300)));
        assert_ne!(once, sample(10, 2, 0..500));
        assert_eq!(sample(10, 1, (0..5).chain(0..5)).len(), 5);
    }

    #[test]
    fn every_repo_is_as_likely() {
        let mut counts = [0; 20];
        for seed in 0..1_000 {
            for chosen in sample(5, seed, 0..20) {
                counts[chosen.as_str().strip_prefix("did:plc:").unwrap().parse::<usize>().unwrap()] += 1;
            }
        }
        assert!(counts.iter().all(|count| (190..310).contains(count)), "{counts:?}");
    }
}
