//! Token buckets of the tenants' scripts: for fuel, so that a tenant's loops slow down its own runs instead of other
//! tenants', and for the bytes of large answers. [`Tenant::Instance`] has no bound.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::scripts::limits;
use belvedere_base::clock::Timestamp;
use belvedere_web::fair_share::Tenant;

/// Capacity of a bucket, in seconds of its refill.
const BURST_SECONDS: i64 = 10;
/// Number of buckets at which the full ones are removed.
const SWEEP_AT: usize = 1_024;

/// All tenants' buckets of one kind. A token is a unit of fuel or a byte.
#[derive(Debug)]
pub(in crate::scripts) struct TokenBuckets {
    /// Tokens a second; 0 switches the buckets off.
    refill: i64,
    /// The smallest capacity of a bucket: the most that one run takes.
    min_burst: i64,
    by_tenant: Mutex<HashMap<Tenant, Bucket>>,
}

/// Counts one run that waits for its tenant's bucket; dropping it takes the run off the count.
#[derive(Debug)]
pub(in crate::scripts) struct WaitGuard(Arc<AtomicU32>);

impl Drop for WaitGuard {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// `tokens` as of `at`. Negative after a run that took more than were left: a run is charged when it ends.
#[derive(Clone, Debug)]
struct Bucket {
    tokens: i64,
    at: Timestamp,
    /// Runs that wait for the bucket to fill.
    waiting: Arc<AtomicU32>,
}

impl TokenBuckets {
    pub(in crate::scripts) fn new(fuel_per_second: u64) -> Self {
        let refill = fuel_per_second.min(i64::MAX as u64) as i64;
        Self { refill, min_burst: limits::FUEL as i64, by_tenant: Mutex::default() }
    }

    /// Buckets for the bytes of large answers.
    pub(in crate::scripts) fn for_answers() -> Self {
        let (refill, min_burst) = (limits::ANSWER_BYTES_PER_SECOND as i64, limits::RESULT_BYTES as i64);
        Self { refill, min_burst, by_tenant: Mutex::default() }
    }

    /// Whether the tenant may start a run; the error is the time until it may.
    pub(in crate::scripts) fn admit(&self, tenant: &Tenant, now: Timestamp) -> Result<(), Duration> {
        let missing = 1 - self.with(tenant, now, |bucket| bucket.tokens).unwrap_or(1);
        if missing <= 0 {
            return Ok(());
        }
        Err(Duration::from_secs_f64(missing as f64 / self.refill as f64))
    }

    /// Counts a run among the tenant's waiting runs; `None` when too many wait already.
    pub(in crate::scripts) fn wait(&self, tenant: &Tenant, now: Timestamp) -> Option<WaitGuard> {
        let waiting = WaitGuard(self.with(tenant, now, |bucket| Arc::clone(&bucket.waiting))?);
        (waiting.0.fetch_add(1, Ordering::Relaxed) < limits::THROTTLED_RUNS).then_some(waiting)
    }

    /// Takes what a run used.
    pub(in crate::scripts) fn charge(&self, tenant: &Tenant, tokens: u64, now: Timestamp) {
        self.with(tenant, now, |bucket| bucket.tokens = bucket.tokens.saturating_sub(tokens as i64));
    }

    fn burst(&self) -> i64 {
        self.refill.saturating_mul(BURST_SECONDS).max(self.min_burst)
    }

    fn with<T>(&self, tenant: &Tenant, now: Timestamp, work: impl FnOnce(&mut Bucket) -> T) -> Option<T> {
        if self.refill == 0 || *tenant == Tenant::Instance {
            return None;
        }
        let mut buckets = self.by_tenant.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() >= SWEEP_AT && !buckets.contains_key(tenant) {
            buckets.retain(|_, bucket| self.filled(bucket, now) < self.burst());
        }
        let full = || Bucket { tokens: self.burst(), at: now, waiting: Arc::default() };
        let bucket = buckets.entry(tenant.clone()).or_insert_with(full);
        bucket.tokens = self.filled(bucket, now);
        bucket.at = now.max(bucket.at);
        Some(work(bucket))
    }

    /// The tokens in the bucket at `now`, with the refill since `at`.
    fn filled(&self, bucket: &Bucket, now: Timestamp) -> i64 {
        let passed = i128::from((now.0 - bucket.at.0).max(0));
        let gained = passed * i128::from(self.refill) / 1_000_000;
        (i128::from(bucket.tokens) + gained).min(i128::from(self.burst())) as i64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000;

    fn tenant(name: &str) -> Tenant {
        Tenant::client(name)
    }

    #[test]
    fn a_tenant_waits_for_what_it_overdrew_and_others_do_not() {
        let buckets = TokenBuckets::new(limits::FUEL);
        let at = |seconds: i64| Timestamp(seconds * SECOND);
        assert_eq!(buckets.admit(&tenant("a"), at(0)), Ok(()));
        buckets.charge(&tenant("a"), 12 * limits::FUEL, at(0));
        assert!(buckets.admit(&tenant("a"), at(0)).unwrap_err() >= Duration::from_secs(2));
        assert_eq!(buckets.admit(&tenant("b"), at(0)), Ok(()));
        assert!(buckets.admit(&tenant("a"), at(1)).is_err());
        assert_eq!(buckets.admit(&tenant("a"), at(3)), Ok(()));
        // A clock that goes back removes no tokens.
        assert_eq!(buckets.admit(&tenant("a"), at(2)), Ok(()));
    }

    #[test]
    fn answers_have_a_share_of_their_own() {
        let buckets = TokenBuckets::for_answers();
        let (max, now) = (limits::RESULT_BYTES as u64, Timestamp(0));
        let mut charged = 0;
        while buckets.admit(&tenant("a"), now).is_ok() {
            buckets.charge(&tenant("a"), max, now);
            charged += 1;
            assert!(charged < 100, "the bucket never empties");
        }
        assert!(charged >= 4, "a page with some large answers is fine");
        assert_eq!(buckets.admit(&tenant("b"), now), Ok(()));
        assert_eq!(buckets.admit(&tenant("a"), Timestamp(3 * SECOND)), Ok(()));
    }

    #[test]
    fn nothing_is_saved_up_beyond_the_burst() {
        let buckets = TokenBuckets::new(limits::FUEL);
        buckets.charge(&tenant("a"), 1, Timestamp(0));
        buckets.charge(&tenant("a"), 11 * limits::FUEL, Timestamp(1_000 * SECOND));
        assert!(buckets.admit(&tenant("a"), Timestamp(1_000 * SECOND)).is_err());
    }

    #[test]
    fn the_number_of_throttled_runs_is_bounded() {
        let buckets = TokenBuckets::new(limits::FUEL);
        let waiting: Vec<_> =
            (0..limits::THROTTLED_RUNS).map(|_| buckets.wait(&tenant("a"), Timestamp(0)).unwrap()).collect();
        assert!(buckets.wait(&tenant("a"), Timestamp(0)).is_none());
        assert!(buckets.wait(&tenant("b"), Timestamp(0)).is_some());
        drop(waiting);
        assert!(buckets.wait(&tenant("a"), Timestamp(0)).is_some());
    }

    #[test]
    fn memory_is_bounded_and_zero_is_off() {
        let buckets = TokenBuckets::new(1_000_000);
        for i in 0..10_000 {
            buckets.charge(&tenant(&i.to_string()), 1, Timestamp(i * SECOND));
        }
        assert!(buckets.by_tenant.lock().unwrap().len() <= SWEEP_AT);
        let off = TokenBuckets::new(0);
        off.charge(&tenant("a"), u64::MAX / 2, Timestamp(0));
        assert_eq!(off.admit(&tenant("a"), Timestamp(0)), Ok(()));
        assert!(off.by_tenant.lock().unwrap().is_empty());
        buckets.charge(&Tenant::Instance, u64::MAX / 2, Timestamp(0));
        assert_eq!(buckets.admit(&Tenant::Instance, Timestamp(0)), Ok(()));
    }
}
