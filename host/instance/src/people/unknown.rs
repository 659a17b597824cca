//! The accounts that pages have shown without a handle that counts, and when each is looked up in the background again.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use moka::sync::Cache;
use tokio::sync::Notify;

use super::NO_HANDLE_SECONDS;
use belvedere_base::backoff::Backoff;
use belvedere_base::clock::Timestamp;
use belvedere_base::random::Random;
use belvedere_protocol::atproto::Did;

/// The shortest wait after a look-up that failed. It doubles with each further failure, up to the wait after a certain answer.
const FIRST_RETRY: Duration = Duration::from_secs(30);

/// Accounts that wait for a look-up. Others are noted again by the next page that shows them.
const MAX_NOTED: usize = 1_000;

/// Accounts that are looked up at a time.
const AT_A_TIME: usize = 50;

/// Accounts whose last look-up is remembered: a page may be loaded often, and the database keeps no handles of accounts that the
/// index does not have.
const MAX_REMEMBERED: u64 = 50_000;

#[derive(Debug)]
pub(super) struct Unknown {
    dids: Mutex<HashSet<Did>>,
    noted: Notify,
    looked_up: Cache<Did, LookUp>,
}

/// The last look-up of an account.
#[derive(Clone, Debug)]
struct LookUp {
    /// It is not looked up again before.
    again_at: Timestamp,
    retries: Backoff,
    /// That of an account that the index does not have.
    handle: Option<String>,
}

impl Default for Unknown {
    fn default() -> Self {
        let looked_up = Cache::builder().max_capacity(MAX_REMEMBERED).build();
        Self { dids: Mutex::default(), noted: Notify::new(), looked_up }
    }
}

impl Unknown {
    /// Notes those that are due for a look-up.
    pub(super) fn note<'a>(&self, dids: impl Iterator<Item = &'a Did>, now: Timestamp) {
        let is_due = |did: &&Did| self.looked_up.get(*did).is_none_or(|last| last.again_at <= now);
        let mut due = dids.filter(is_due).peekable();
        if due.peek().is_some() {
            let mut noted = self.dids();
            let room = MAX_NOTED.saturating_sub(noted.len());
            noted.extend(due.take(room).cloned());
            drop(noted);
            self.noted.notify_one();
        }
    }

    /// Waits until accounts are noted.
    pub(super) async fn noted(&self) {
        self.noted.notified().await;
    }

    /// Takes some of the noted accounts, which are not noted again before their answer is old.
    pub(super) fn take(&self, now: Timestamp) -> Vec<Did> {
        let mut noted = self.dids();
        let dids: Vec<Did> = noted.iter().take(AT_A_TIME).cloned().collect();
        for did in &dids {
            noted.remove(did);
            let last = self.looked_up.get(did);
            let (retries, handle) = last.map_or_else(
                || (Backoff::new(FIRST_RETRY, Duration::from_secs(NO_HANDLE_SECONDS.unsigned_abs())), None),
                |last| (last.retries, last.handle),
            );
            let again_at = now.plus_seconds(NO_HANDLE_SECONDS);
            self.looked_up.insert(did.clone(), LookUp { again_at, retries, handle });
        }
        dids
    }

    /// Keeps an answer. `handle`: that of an account that the index does not have.
    pub(super) fn found(&self, did: &Did, handle: Option<String>) {
        if let Some(mut last) = self.looked_up.get(did) {
            last.retries.reset();
            self.looked_up.insert(did.clone(), LookUp { handle, ..last });
        }
    }

    /// Shortens the wait for accounts of which nothing could be said.
    pub(super) fn failed(&self, dids: &[Did], now: Timestamp, random: &Random) {
        for did in dids {
            if let Some(mut last) = self.looked_up.get(did) {
                let wait = last.retries.next(random);
                last.again_at = now.plus_seconds(i64::try_from(wait.as_secs()).unwrap_or(NO_HANDLE_SECONDS));
                self.looked_up.insert(did.clone(), last);
            }
        }
    }

    /// The handle of an account that the index does not have.
    pub(super) fn handle(&self, did: &Did) -> Option<String> {
        self.looked_up.get(did)?.handle
    }

    /// Forgets an account whose identity has changed.
    pub(super) fn forget(&self, did: &Did) {
        self.looked_up.invalidate(did);
    }

    fn dids(&self) -> MutexGuard<'_, HashSet<Did>> {
        self.dids.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp(0).plus_seconds(seconds)
    }

    /// Notes an account at a time. Returns whether it is looked up then.
    fn is_due(unknown: &Unknown, did: &Did, now: Timestamp) -> bool {
        unknown.note(std::iter::once(did), now);
        !unknown.take(now).is_empty()
    }

    #[test]
    fn an_answer_counts_for_an_hour_and_a_failure_for_a_time_that_doubles() {
        let (unknown, random) = (Unknown::default(), Random::seeded(3));
        let did = Did::try_from("did:plc:alice").unwrap();
        assert!(is_due(&unknown, &did, at(0)));
        assert!(!is_due(&unknown, &did, at(NO_HANDLE_SECONDS - 1)));
        let mut now = at(NO_HANDLE_SECONDS);
        for longest in [60, 120, 240, 480, 960, 1_920, 3_600, 3_600] {
            assert!(is_due(&unknown, &did, now), "{longest}");
            unknown.failed(std::slice::from_ref(&did), now, &random);
            assert!(!is_due(&unknown, &did, now.plus_seconds(longest / 2 - 1)), "{longest}");
            now = now.plus_seconds(longest);
        }
        assert!(is_due(&unknown, &did, now));
        unknown.found(&did, None);
        assert!(!is_due(&unknown, &did, now.plus_seconds(NO_HANDLE_SECONDS - 1)));
        assert!(is_due(&unknown, &did, now.plus_seconds(NO_HANDLE_SECONDS)));
        let now = now.plus_seconds(NO_HANDLE_SECONDS);
        // The next failure is the first one again.
        unknown.failed(std::slice::from_ref(&did), now, &random);
        assert!(is_due(&unknown, &did, now.plus_seconds(60)));
    }

    #[test]
    fn a_handle_is_kept_until_the_identity_changes() {
        let unknown = Unknown::default();
        let did = Did::try_from("did:plc:alice").unwrap();
        assert!(is_due(&unknown, &did, at(0)));
        unknown.found(&did, Some("alice.example".to_owned()));
        assert_eq!(unknown.handle(&did).as_deref(), Some("alice.example"));
        assert!(is_due(&unknown, &did, at(NO_HANDLE_SECONDS)), "its domain causes no event");
        assert_eq!(unknown.handle(&did).as_deref(), Some("alice.example"));
        unknown.forget(&did);
        assert_eq!(unknown.handle(&did), None);
    }

    #[test]
    fn only_some_are_noted_and_taken() {
        let unknown = Unknown::default();
        let dids: Vec<Did> =
            (0..1_200).map(|n| Did::try_from(format!("did:plc:{n}").as_str()).unwrap()).collect();
        unknown.note(dids.iter(), at(0));
        let mut taken = 0;
        while let some = unknown.take(at(0))
            && !some.is_empty()
        {
            assert!(some.len() <= AT_A_TIME);
            taken += some.len();
        }
        assert_eq!(taken, MAX_NOTED);
    }
}
