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

/// Accounts whose last look-up is remembered: a page may be loaded often, and the database keeps nothing of a look-up that failed, or
/// that found neither handle nor PDS.
const MAX_REMEMBERED: u64 = 50_000;

#[derive(Debug)]
pub(super) struct Unknown {
    dids: Mutex<HashSet<Did>>,
    noted: Notify,
    last: Cache<Did, LookUp>,
}

/// The last look-up of an account.
#[derive(Clone, Debug)]
struct LookUp {
    /// It is not looked up again before.
    again_at: Timestamp,
    retries: Backoff,
}

impl Default for Unknown {
    fn default() -> Self {
        let last = Cache::builder().max_capacity(MAX_REMEMBERED).build();
        Self { dids: Mutex::default(), noted: Notify::new(), last }
    }
}

impl Unknown {
    /// Notes those that are due for a look-up.
    pub(super) fn note<'a>(&self, dids: impl Iterator<Item = &'a Did>, now: Timestamp) {
        let mut due = dids.filter(|did| self.is_due(did, now)).peekable();
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

    /// Takes some of the noted accounts.
    pub(super) fn take(&self, now: Timestamp) -> Vec<Did> {
        let mut noted = self.dids();
        // A page may have noted some again while they were looked up.
        noted.retain(|did| self.is_due(did, now));
        let dids: Vec<Did> = noted.iter().take(AT_A_TIME).cloned().collect();
        for did in &dids {
            noted.remove(did);
        }
        dids
    }

    /// Keeps the time of a look-up with an answer, before which these accounts are not due again.
    pub(super) fn looked_up(&self, dids: &[Did], now: Timestamp) {
        for did in dids {
            let again_at = now.plus_seconds(NO_HANDLE_SECONDS);
            self.last.insert(did.clone(), LookUp { again_at, retries: retries() });
        }
    }

    /// Sets the wait for accounts of which nothing could be said.
    pub(super) fn failed(&self, dids: &[Did], now: Timestamp, random: &Random) {
        for did in dids {
            let mut retries = self.last.get(did).map_or_else(retries, |last| last.retries);
            let wait = i64::try_from(retries.next(random).as_secs()).unwrap_or(NO_HANDLE_SECONDS);
            self.last.insert(did.clone(), LookUp { again_at: now.plus_seconds(wait), retries });
        }
    }

    fn is_due(&self, did: &Did, now: Timestamp) -> bool {
        self.last.get(did).is_none_or(|last| last.again_at <= now)
    }

    /// Forgets an account whose identity has changed.
    pub(super) fn forget(&self, did: &Did) {
        self.last.invalidate(did);
    }

    fn dids(&self) -> MutexGuard<'_, HashSet<Did>> {
        self.dids.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn retries() -> Backoff {
    Backoff::new(FIRST_RETRY, Duration::from_secs(NO_HANDLE_SECONDS.unsigned_abs()))
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
        assert!(is_due(&unknown, &did, at(0)), "it was not looked up");
        unknown.looked_up(std::slice::from_ref(&did), at(0));
        assert!(!is_due(&unknown, &did, at(NO_HANDLE_SECONDS - 1)));
        let mut now = at(NO_HANDLE_SECONDS);
        for longest in [60, 120, 240, 480, 960, 1_920, 3_600, 3_600] {
            assert!(is_due(&unknown, &did, now), "{longest}");
            unknown.failed(std::slice::from_ref(&did), now, &random);
            assert!(!is_due(&unknown, &did, now.plus_seconds(longest / 2 - 1)), "{longest}");
            now = now.plus_seconds(longest);
        }
        assert!(is_due(&unknown, &did, now));
        unknown.looked_up(std::slice::from_ref(&did), now);
        assert!(!is_due(&unknown, &did, now.plus_seconds(NO_HANDLE_SECONDS - 1)));
        assert!(is_due(&unknown, &did, now.plus_seconds(NO_HANDLE_SECONDS)));
        let now = now.plus_seconds(NO_HANDLE_SECONDS);
        // The next failure is the first one again.
        unknown.failed(std::slice::from_ref(&did), now, &random);
        assert!(is_due(&unknown, &did, now.plus_seconds(60)));
    }

    #[test]
    fn an_account_is_due_again_when_its_identity_has_changed() {
        let unknown = Unknown::default();
        let did = Did::try_from("did:plc:alice").unwrap();
        unknown.looked_up(std::slice::from_ref(&did), at(0));
        assert!(!is_due(&unknown, &did, at(1)));
        unknown.forget(&did);
        assert!(is_due(&unknown, &did, at(1)));
    }

    #[test]
    fn one_that_was_noted_during_its_look_up_is_not_looked_up_twice() {
        let unknown = Unknown::default();
        let did = Did::try_from("did:plc:alice").unwrap();
        assert!(is_due(&unknown, &did, at(0)));
        unknown.note(std::iter::once(&did), at(1));
        unknown.looked_up(std::slice::from_ref(&did), at(2));
        assert!(unknown.take(at(2)).is_empty());
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
