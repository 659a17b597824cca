//! Implements token buckets (admin-api.md §13), which limit the calls of API clients, addresses, targets and DIDs.
//!
//! Buckets live in memory, start full and refill continuously. A full bucket equals a missing one, so buckets that are
//! full again are dropped.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::StatusCode;
use http::header::{HeaderName, HeaderValue, RETRY_AFTER};

use belvedere_base::clock::Timestamp;
use belvedere_web::http::Error;

/// Interval at which full buckets are dropped.
pub const SWEEP_EVERY: Duration = Duration::from_mins(1);

/// Number of shards, each with its own lock, so that clients seldom wait for each other.
const SHARDS: usize = 16;

/// Maximum number of buckets in one shard. API clients are fewer, but addresses and DIDs can be more. Beyond it, new
/// keys share one bucket per shard, so the buckets of clients are kept separately ([`crate::access::Access::buckets`]).
const MAX_PER_SHARD: usize = 8192;

/// Upper bound of all times computed from a refill rate: no caller has to wait longer than a day.
const MAX_WAIT_SECONDS: f64 = 86_400.0;

const LIMIT: HeaderName = HeaderName::from_static("ratelimit-limit");
const REMAINING: HeaderName = HeaderName::from_static("ratelimit-remaining");
const RESET: HeaderName = HeaderName::from_static("ratelimit-reset");

/// Size and refill of a bucket.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limit {
    pub capacity: f64,
    /// Tokens per second. With 0 or less the bucket does not refill.
    pub refill_rate: f64,
}

/// The remaining budget after a request was charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    pub limit: u64,
    /// Whole tokens.
    pub remaining: u64,
    /// The time at which the bucket will be full, in seconds since the epoch.
    pub reset: i64,
}

/// The bucket holds too few tokens for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exhausted {
    pub limit: u64,
    pub reset: i64,
    /// Seconds until the bucket holds enough for the same request.
    pub retry_after: u64,
}

#[derive(Clone, Copy, Debug)]
struct Bucket {
    tokens: f64,
    updated_at: Timestamp,
    /// The time at which it is full again, if no more is taken.
    full_at: Timestamp,
}

#[derive(Debug)]
pub struct Buckets {
    shards: [Mutex<HashMap<Box<str>, Bucket>>; SHARDS],
    hasher: RandomState,
}

impl Default for Buckets {
    fn default() -> Self {
        Self { shards: std::array::from_fn(|_| Mutex::default()), hasher: RandomState::new() }
    }
}

impl Buckets {
    /// Takes `cost` tokens from the bucket of `key`. A request that costs more than the whole bucket takes all of it;
    /// otherwise it could never be made.
    ///
    /// # Errors
    /// When the bucket holds too little; then nothing is taken.
    pub fn take(&self, key: &str, limit: Limit, cost: u32, now: Timestamp) -> Result<Budget, Exhausted> {
        self.with_bucket(key, limit, now, |bucket| bucket.take(limit, cost, now))
    }

    /// Whether [`Self::take`] would succeed now; takes nothing.
    ///
    /// # Errors
    /// When the bucket holds too little.
    pub fn check(&self, key: &str, limit: Limit, cost: u32, now: Timestamp) -> Result<(), Exhausted> {
        let mut bucket = self.shard(key).get(key).copied().unwrap_or(Bucket::full(limit, now));
        bucket.take(limit, cost, now).map(drop)
    }

    /// Whole tokens that the bucket holds now.
    pub fn tokens(&self, key: &str, limit: Limit, now: Timestamp) -> u64 {
        let mut bucket = self.shard(key).get(key).copied().unwrap_or(Bucket::full(limit, now));
        bucket.refill(limit, now);
        bucket.tokens as u64
    }

    /// Returns tokens that were taken for a request that another bucket could not pay for.
    pub fn refund(&self, key: &str, limit: Limit, cost: u32, now: Timestamp) {
        self.with_bucket(key, limit, now, |bucket| bucket.refund(limit, cost, now));
    }

    fn with_bucket<T>(
        &self,
        key: &str,
        limit: Limit,
        now: Timestamp,
        update: impl FnOnce(&mut Bucket) -> T,
    ) -> T {
        let mut buckets = self.shard(key);
        let key = if buckets.len() >= MAX_PER_SHARD && !buckets.contains_key(key) { "" } else { key };
        match buckets.get_mut(key) {
            Some(bucket) => update(bucket),
            None => update(buckets.entry(key.into()).or_insert(Bucket::full(limit, now))),
        }
    }

    fn shard(&self, key: &str) -> MutexGuard<'_, HashMap<Box<str>, Bucket>> {
        let shard = &self.shards[self.hasher.hash_one(key) as usize % SHARDS];
        shard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Drops buckets that are full again.
    pub fn sweep(&self, now: Timestamp) {
        for shard in &self.shards {
            let mut buckets = shard.lock().unwrap_or_else(PoisonError::into_inner);
            buckets.retain(|_, bucket| bucket.full_at > now);
        }
    }
}

impl Bucket {
    fn full(limit: Limit, now: Timestamp) -> Self {
        Self { tokens: limit.capacity, updated_at: now, full_at: now }
    }

    /// Adds the tokens that have flowed in.
    fn refill(&mut self, limit: Limit, now: Timestamp) {
        // A clock that was set back adds nothing and takes nothing.
        let elapsed = (now.0 - self.updated_at.0).max(0) as f64 / 1e6;
        self.tokens = (self.tokens + elapsed * limit.refill_rate.max(0.0)).min(limit.capacity);
        self.updated_at = now;
    }

    fn take(&mut self, limit: Limit, cost: u32, now: Timestamp) -> Result<Budget, Exhausted> {
        let Limit { capacity, .. } = limit;
        self.refill(limit, now);
        let cost = f64::from(cost).min(capacity);
        let until = |tokens: f64| limit.seconds_for(tokens);
        if self.tokens < cost {
            return Err(Exhausted {
                limit: capacity as u64,
                reset: now.as_seconds() + until(capacity) as i64,
                retry_after: until(cost - self.tokens).max(1.0) as u64,
            });
        }
        self.tokens -= cost;
        let seconds = until(capacity - self.tokens) as i64;
        self.full_at = now.plus_seconds(seconds);
        Ok(Budget {
            limit: capacity as u64,
            remaining: self.tokens as u64,
            reset: now.as_seconds() + seconds,
        })
    }

    fn refund(&mut self, limit: Limit, cost: u32, now: Timestamp) {
        self.refill(limit, now);
        self.tokens = (self.tokens + f64::from(cost)).min(limit.capacity);
    }
}

impl Limit {
    /// Whole seconds in which this many tokens flow in.
    fn seconds_for(self, tokens: f64) -> f64 {
        let seconds = if tokens <= 0.0 { 0.0 } else { (tokens / self.refill_rate.max(0.0)).ceil() };
        seconds.min(MAX_WAIT_SECONDS)
    }
}

impl Budget {
    /// The smaller budget of two buckets that a call was charged to.
    #[must_use]
    pub fn tighter(self, other: Self) -> Self {
        if other.remaining < self.remaining { other } else { self }
    }

    /// The response headers that tell a caller its budget.
    pub fn headers(&self) -> [(HeaderName, HeaderValue); 3] {
        [(LIMIT, self.limit.into()), (REMAINING, self.remaining.into()), (RESET, self.reset.into())]
    }
}

impl From<Exhausted> for Error {
    fn from(exhausted: Exhausted) -> Self {
        Self::new(StatusCode::TOO_MANY_REQUESTS, "RateLimited")
            .with_message("Too many requests")
            .with_header(LIMIT, exhausted.limit.into())
            .with_header(REMAINING, HeaderValue::from_static("0"))
            .with_header(RESET, exhausted.reset.into())
            .with_header(RETRY_AFTER, exhausted.retry_after.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Limit = Limit { capacity: 10.0, refill_rate: 2.0 };

    fn at(seconds: f64) -> Timestamp {
        Timestamp(1_000_000_000 + (seconds * 1e6) as i64)
    }

    #[test]
    fn starts_full_and_refills_continuously() {
        let buckets = Buckets::default();
        assert_eq!(buckets.take("a", LIMIT, 4, at(0.0)).unwrap().remaining, 6);
        assert_eq!(buckets.take("a", LIMIT, 6, at(0.0)).unwrap().remaining, 0);
        let exhausted = buckets.take("a", LIMIT, 3, at(0.0)).unwrap_err();
        assert_eq!(exhausted, Exhausted { limit: 10, reset: 1005, retry_after: 2 });
        assert!(buckets.take("a", LIMIT, 1, at(0.4)).is_err());
        let budget = buckets.take("a", LIMIT, 1, at(0.75)).unwrap();
        assert_eq!((budget.remaining, budget.reset), (0, 1000 + 5));
        assert_eq!(buckets.take("a", LIMIT, 1, at(1000.0)).unwrap().remaining, 9);
        assert_eq!(buckets.take("b", LIMIT, 1, at(0.0)).unwrap().remaining, 9);
    }

    #[test]
    fn extreme_numbers_give_valid_results() {
        let buckets = Buckets::default();
        let stuck = Limit { capacity: 1.0, refill_rate: 0.0 };
        assert!(buckets.take("a", stuck, 1, at(0.0)).is_ok());
        assert_eq!(buckets.take("a", stuck, 1, at(5.0)).unwrap_err().retry_after, 86_400);
        // Costs more than the capacity: takes the whole bucket.
        assert_eq!(buckets.take("b", LIMIT, 50, at(0.0)).unwrap().remaining, 0);
        assert_eq!(buckets.take("b", LIMIT, 50, at(0.0)).unwrap_err().retry_after, 5);
        // No cost, and a clock that was set back.
        assert!(buckets.take("b", LIMIT, 0, at(-100.0)).is_ok());
        // A lowered capacity takes effect at once.
        assert!(buckets.take("c", LIMIT, 0, at(0.0)).is_ok());
        let lower = Limit { capacity: 3.0, ..LIMIT };
        assert_eq!(buckets.take("c", lower, 1, at(0.0)).unwrap().remaining, 2);
    }

    #[test]
    fn full_buckets_are_dropped_and_their_number_is_bounded() {
        let buckets = Buckets::default();
        let count = || buckets.shards.iter().map(|s| s.lock().unwrap().len()).sum::<usize>();
        for n in 0..(SHARDS * MAX_PER_SHARD + 20_000) {
            let _ = buckets.take(&n.to_string(), LIMIT, 1, at(0.0));
        }
        assert!(count() <= SHARDS * (MAX_PER_SHARD + 1));
        buckets.sweep(at(0.5));
        assert!(count() > 0);
        // The shared buckets were emptied, and refill last.
        buckets.sweep(at(6.0));
        assert_eq!(count(), 0);
    }

    #[test]
    fn a_slow_bucket_is_kept_until_it_is_full() {
        let buckets = Buckets::default();
        let slow = Limit { capacity: 2.0, refill_rate: 0.001 };
        for _ in 0..2 {
            buckets.take("a", slow, 1, at(0.0)).unwrap();
        }
        buckets.sweep(at(900.0));
        assert!(buckets.take("a", slow, 1, at(900.0)).is_err());
        buckets.sweep(at(2001.0));
        assert_eq!(buckets.take("a", slow, 1, at(2001.0)).unwrap().remaining, 1);
    }

    #[test]
    fn checks_take_nothing_and_refunds_are_added() {
        let buckets = Buckets::default();
        for _ in 0..20 {
            assert!(buckets.check("a", LIMIT, 10, at(0.0)).is_ok());
        }
        buckets.take("a", LIMIT, 8, at(0.0)).unwrap();
        assert_eq!(buckets.check("a", LIMIT, 3, at(0.0)).unwrap_err().retry_after, 1);
        buckets.refund("a", LIMIT, 8, at(0.0));
        buckets.refund("a", LIMIT, 8, at(0.0));
        assert_eq!(buckets.take("a", LIMIT, 1, at(0.0)).unwrap().remaining, 9);
    }

    #[test]
    fn an_exhausted_bucket_is_a_429_with_its_headers() {
        let error = Error::from(Exhausted { limit: 10, reset: 1005, retry_after: 2 });
        assert_eq!(error.status, 429);
        let response = error.into_response("x");
        for (name, value) in [
            ("ratelimit-limit", "10"),
            ("ratelimit-remaining", "0"),
            ("ratelimit-reset", "1005"),
            ("retry-after", "2"),
        ] {
            assert_eq!(response.headers()[name], value);
        }
    }
}
