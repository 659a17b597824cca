//! Remembers which commits of a term have entered the pipeline. A server replays the last seconds after each subscription:
//! to check and validate their records again only for the writer to find them stale would cost as much as the first time.
//!
//! A commit that is left out here was submitted in this term, byte for byte the same, so it takes its way through the same
//! shard and is retried until it is committed, or the term ends and this memory with it. The cursor waits for it there.

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use super::change::{Claim, ClaimedRecord, IndexChange};
use super::scripts::RecordEvent;
use belvedere_protocol::atproto::{Did, Nsid};
use belvedere_storage::store::index::Change;

/// Commits that are remembered, of a few bytes each: a minute of a stream with a thousand tracked commits a second.
const MAX_COMMITS: usize = 64 << 10;

/// Accounts with a change of status that are remembered.
const MAX_ACCOUNTS: usize = 16 << 10;

/// The commits of the current term. Bounded: the oldest are forgotten, and cost their work again if they are replayed.
pub(super) struct Submitted<S = RandomState> {
    /// Keyed, so that no repo can choose records that count as others.
    hasher: S,
    commits: HashSet<u64>,
    /// Oldest first.
    order: VecDeque<u64>,
    /// The number of the last account event of a DID. Replayed, it may delete or hide what commits around it have stored, so
    /// these are submitted again too.
    accounts: HashMap<u64, u64>,
    account_events: u64,
    tracked: Arc<[Nsid]>,
}

impl<S: BuildHasher + Default> Default for Submitted<S> {
    fn default() -> Self {
        Self {
            hasher: S::default(),
            commits: HashSet::new(),
            order: VecDeque::new(),
            accounts: HashMap::new(),
            account_events: 0,
            tracked: Arc::default(),
        }
    }
}

impl<S: BuildHasher> Submitted<S> {
    /// The collections that are tracked from now on. When one no longer is, its records are deleted, so everything is
    /// forgotten: if it is tracked again, a replay stores them.
    pub(super) fn track(&mut self, collections: &Arc<[Nsid]>) {
        if Arc::ptr_eq(&self.tracked, collections) {
            return;
        }
        let mut lost = self
            .tracked
            .iter()
            .filter(|old| collections.binary_search_by(|new| new.as_str().cmp(old.as_str())).is_err());
        if lost.next().is_some() {
            self.forget();
        }
        self.tracked = Arc::clone(collections);
    }

    /// Whether an event has to be submitted; then it counts as submitted. It does not if it is a commit that was.
    pub(super) fn is_new(&mut self, change: &IndexChange<ClaimedRecord>) -> bool {
        let RecordEvent { action, change: Change { uri, rev, record } } = match change {
            IndexChange::Account(account) => {
                self.account_changed(&account.did);
                return true;
            }
            IndexChange::Repair(_) => return true,
            IndexChange::Record(event) => event,
        };
        let record = record.as_ref().map(|record| {
            let claim = match &record.claim {
                Claim::None => None,
                Claim::Cid(cid) => Some(Ok(cid.to_bytes())),
                Claim::Garbage(text) => Some(Err(text)),
            };
            (claim, &record.text)
        });
        let name = (uri.did.as_str(), uri.collection.as_str(), uri.rkey.as_str(), rev.as_u64());
        let key = self.hasher.hash_one((self.last_account_event(&uri.did), name, *action as u8, record));
        if !self.commits.insert(key) {
            return false;
        }
        self.order.push_back(key);
        if self.order.len() > MAX_COMMITS
            && let Some(oldest) = self.order.pop_front()
        {
            self.commits.remove(&oldest);
        }
        true
    }

    fn last_account_event(&self, did: &Did) -> u64 {
        if self.accounts.is_empty() {
            return 0;
        }
        self.accounts.get(&self.hasher.hash_one(did.as_str())).copied().unwrap_or_default()
    }

    fn account_changed(&mut self, did: &Did) {
        if self.accounts.len() >= MAX_ACCOUNTS {
            self.forget();
        }
        self.account_events += 1;
        self.accounts.insert(self.hasher.hash_one(did.as_str()), self.account_events);
    }

    fn forget(&mut self) {
        self.commits.clear();
        self.order.clear();
        self.accounts.clear();
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::indexing::RecordAction;
    use belvedere_protocol::atproto::{RecordKey, RecordUri, Tid};
    use belvedere_storage::store::index::{AccountChange, AccountStatus};

    fn did(name: &str) -> Did {
        Did::try_from(format!("did:plc:{name}").as_str()).unwrap()
    }

    fn nsid(name: &str) -> Nsid {
        Nsid::try_from(name).unwrap()
    }

    fn event(
        action: RecordAction,
        name: &str,
        rev: u64,
        record: Option<&'static str>,
    ) -> IndexChange<ClaimedRecord> {
        let rkey = RecordKey::try_from("self").unwrap();
        let uri = RecordUri { did: did(name), collection: nsid("app.example.note"), rkey };
        let text = |text: &'static str| Bytes::from_static(text.as_bytes());
        let record = record.map(|record| ClaimedRecord { text: text(record), claim: Claim::None });
        IndexChange::Record(RecordEvent {
            action,
            change: Change { uri, rev: Tid::new(rev, 0).unwrap(), record },
        })
    }

    fn record(name: &str, rev: u64, record: &'static str) -> IndexChange<ClaimedRecord> {
        event(RecordAction::Create, name, rev, Some(record))
    }

    fn account(name: &str) -> IndexChange<ClaimedRecord> {
        let (status, rev) = (AccountStatus::Deleted, Tid::default());
        IndexChange::Account(AccountChange { did: did(name), status, rev })
    }

    #[test]
    fn only_the_very_same_commit_is_left_out() {
        let mut submitted = Submitted::<RandomState>::default();
        assert!(submitted.is_new(&record("a", 1, "{}")));
        assert!(!submitted.is_new(&record("a", 1, "{}")));
        // Another server may send the right record for a wrong one.
        assert!(submitted.is_new(&record("a", 1, r#"{"a":1}"#)));
        assert!(submitted.is_new(&record("a", 2, "{}")) && submitted.is_new(&record("b", 1, "{}")));
        let delete = || event(RecordAction::Delete, "a", 1, None);
        assert!(submitted.is_new(&delete()) && !submitted.is_new(&delete()));
        let repair = IndexChange::Repair(did("a"));
        assert!(submitted.is_new(&repair) && submitted.is_new(&repair));
    }

    #[test]
    fn commits_around_a_replayed_account_event_are_submitted_again() {
        let mut submitted = Submitted::<RandomState>::default();
        for _ in 0..2 {
            assert!(submitted.is_new(&record("a", 1, "{}")));
            assert!(submitted.is_new(&account("a")));
            assert!(submitted.is_new(&record("a", 2, "{}")));
            submitted.is_new(&record("b", 1, "{}"));
        }
        assert!(!submitted.is_new(&record("b", 1, "{}")) && !submitted.is_new(&record("a", 2, "{}")));
        for n in 0..=MAX_ACCOUNTS {
            assert!(submitted.is_new(&account(&n.to_string())));
        }
        assert!(submitted.accounts.len() <= MAX_ACCOUNTS);
        assert!(submitted.is_new(&record("b", 1, "{}")), "too many are all forgotten");
    }

    #[test]
    fn the_oldest_commits_are_forgotten() {
        let mut submitted = Submitted::<RandomState>::default();
        for rev in 0..=MAX_COMMITS as u64 {
            assert!(submitted.is_new(&record("a", rev, "{}")));
        }
        assert_eq!((submitted.commits.len(), submitted.order.len()), (MAX_COMMITS, MAX_COMMITS));
        assert!(submitted.is_new(&record("a", 0, "{}")));
        assert!(!submitted.is_new(&record("a", MAX_COMMITS as u64, "{}")));
    }

    #[test]
    fn a_collection_that_is_no_longer_tracked_may_be_replayed() {
        let collections = |names: &[&str]| names.iter().map(|name| nsid(name)).collect::<Arc<[Nsid]>>();
        let mut submitted = Submitted::<RandomState>::default();
        submitted.track(&collections(&["app.example.note"]));
        assert!(submitted.is_new(&record("a", 1, "{}")));
        submitted.track(&collections(&["app.example.like", "app.example.note"]));
        assert!(!submitted.is_new(&record("a", 1, "{}")));
        submitted.track(&collections(&["app.example.like"]));
        submitted.track(&collections(&["app.example.like", "app.example.note"]));
        assert!(submitted.is_new(&record("a", 1, "{}")));
    }
}
