//! Each tenant's share of the processor, for its scripts: a token bucket in fuel. One tenant's loops then cost
//! that tenant, and not the others' latency. A second one of the same kind holds the bytes of large answers. The
//! instance's own work has no bound.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::limits;
use crate::clock::Timestamp;
use crate::fair_share::Tenant;

/// What a tenant may save up, in seconds of its refill.
const BURST_SECONDS: i64 = 10;
/// Tenants remembered before those with nothing to remember are dropped.
const SWEEP_AT: usize = 1_024;

/// All tenants' buckets.
#[derive(Debug)]
pub(super) struct Shares {
    /// Fuel a second; 0 switches shares off.
    refill: i64,
    /// What fits into a bucket at least: the most that one run takes.
    least: i64,
    buckets: Mutex<HashMap<Tenant, Bucket>>,
}

/// One run that waits for its tenant's share; leaving takes it off the count, however it leaves.
#[derive(Debug)]
pub(super) struct Waiting(Arc<AtomicU32>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// `fuel` as of `at`. Under zero after a run that took more than there was: only its end tells what it took.
#[derive(Clone, Debug)]
struct Bucket {
    fuel: i64,
    at: Timestamp,
    /// Runs that wait for it to fill.
    waiting: Arc<AtomicU32>,
}

impl Shares {
    pub(super) fn new(fuel_per_second: u64) -> Self {
        let refill = fuel_per_second.min(i64::MAX as u64) as i64;
        Self { refill, least: limits::FUEL as i64, buckets: Mutex::default() }
    }

    /// Of the bytes of answers.
    pub(super) fn of_answers() -> Self {
        let (refill, least) = (limits::ANSWER_BYTES_PER_SECOND as i64, limits::RESULT_BYTES as i64);
        Self { refill, least, buckets: Mutex::default() }
    }

    /// Whether the tenant may start a run; otherwise how long until it may.
    pub(super) fn admit(&self, tenant: &Tenant, now: Timestamp) -> Result<(), Duration> {
        let missing = 1 - self.with(tenant, now, |bucket| bucket.fuel).unwrap_or(1);
        if missing <= 0 {
            return Ok(());
        }
        Err(Duration::from_secs_f64(missing as f64 / self.refill as f64))
    }

    /// A place among the tenant's runs that wait; `None` when too many do already.
    pub(super) fn wait(&self, tenant: &Tenant, now: Timestamp) -> Option<Waiting> {
        let waiting = Waiting(self.with(tenant, now, |bucket| Arc::clone(&bucket.waiting))?);
        (waiting.0.fetch_add(1, Ordering::Relaxed) < limits::THROTTLED_RUNS).then_some(waiting)
    }

    /// Takes what a run burnt.
    pub(super) fn charge(&self, tenant: &Tenant, fuel: u64, now: Timestamp) {
        self.with(tenant, now, |bucket| bucket.fuel = bucket.fuel.saturating_sub(fuel as i64));
    }

    fn burst(&self) -> i64 {
        self.refill.saturating_mul(BURST_SECONDS).max(self.least)
    }

    fn with<T>(&self, tenant: &Tenant, now: Timestamp, work: impl FnOnce(&mut Bucket) -> T) -> Option<T> {
        if self.refill == 0 || *tenant == Tenant::Instance {
            return None;
        }
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() >= SWEEP_AT && !buckets.contains_key(tenant) {
            buckets.retain(|_, bucket| self.filled(bucket, now) < self.burst());
        }
        let full = || Bucket { fuel: self.burst(), at: now, waiting: Arc::default() };
        let bucket = buckets.entry(tenant.clone()).or_insert_with(full);
        bucket.fuel = self.filled(bucket, now);
        bucket.at = now.max(bucket.at);
        Some(work(bucket))
    }

    /// What is in the bucket with what has come in since.
    fn filled(&self, bucket: &Bucket, now: Timestamp) -> i64 {
        let passed = i128::from((now.0 - bucket.at.0).max(0));
        let gained = passed * i128::from(self.refill) / 1_000_000;
        (i128::from(bucket.fuel) + gained).min(i128::from(self.burst())) as i64
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
        let shares = Shares::new(limits::FUEL);
        let at = |seconds: i64| Timestamp(seconds * SECOND);
        assert_eq!(shares.admit(&tenant("a"), at(0)), Ok(()));
        shares.charge(&tenant("a"), 12 * limits::FUEL, at(0));
        assert!(shares.admit(&tenant("a"), at(0)).unwrap_err() >= Duration::from_secs(2));
        assert_eq!(shares.admit(&tenant("b"), at(0)), Ok(()));
        assert!(shares.admit(&tenant("a"), at(1)).is_err());
        assert_eq!(shares.admit(&tenant("a"), at(3)), Ok(()));
        // A clock that goes back takes nothing away.
        assert_eq!(shares.admit(&tenant("a"), at(2)), Ok(()));
    }

    #[test]
    fn answers_have_a_share_of_their_own() {
        let shares = Shares::of_answers();
        let (most, now) = (limits::RESULT_BYTES as u64, Timestamp(0));
        let mut given = 0;
        while shares.admit(&tenant("a"), now).is_ok() {
            shares.charge(&tenant("a"), most, now);
            given += 1;
            assert!(given < 100, "there is an end to it");
        }
        assert!(given >= 4, "a page with some large answers is fine");
        assert_eq!(shares.admit(&tenant("b"), now), Ok(()));
        assert_eq!(shares.admit(&tenant("a"), Timestamp(3 * SECOND)), Ok(()));
    }

    #[test]
    fn nothing_is_saved_up_beyond_the_burst() {
        let shares = Shares::new(limits::FUEL);
        shares.charge(&tenant("a"), 1, Timestamp(0));
        shares.charge(&tenant("a"), 11 * limits::FUEL, Timestamp(1_000 * SECOND));
        assert!(shares.admit(&tenant("a"), Timestamp(1_000 * SECOND)).is_err());
    }

    #[test]
    fn only_so_many_wait() {
        let shares = Shares::new(limits::FUEL);
        let places: Vec<_> =
            (0..limits::THROTTLED_RUNS).map(|_| shares.wait(&tenant("a"), Timestamp(0)).unwrap()).collect();
        assert!(shares.wait(&tenant("a"), Timestamp(0)).is_none());
        assert!(shares.wait(&tenant("b"), Timestamp(0)).is_some());
        drop(places);
        assert!(shares.wait(&tenant("a"), Timestamp(0)).is_some());
    }

    #[test]
    fn memory_is_bounded_and_zero_is_off() {
        let shares = Shares::new(1_000_000);
        for i in 0..10_000 {
            shares.charge(&tenant(&i.to_string()), 1, Timestamp(i * SECOND));
        }
        assert!(shares.buckets.lock().unwrap().len() <= SWEEP_AT);
        let off = Shares::new(0);
        off.charge(&tenant("a"), u64::MAX / 2, Timestamp(0));
        assert_eq!(off.admit(&tenant("a"), Timestamp(0)), Ok(()));
        assert!(off.buckets.lock().unwrap().is_empty());
        shares.charge(&Tenant::Instance, u64::MAX / 2, Timestamp(0));
        assert_eq!(shares.admit(&Tenant::Instance, Timestamp(0)), Ok(()));
    }
}
