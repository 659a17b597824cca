//! Bounds what scripts and plugins write to the logs, with a token bucket in bytes for each tenant or plugin. A program
//! that logs in a loop loses its own lines, and fills neither the disk nor the writer that all share.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use belvedere_base::clock::Timestamp;

/// Bytes a second that an owner may write on average: four of the longest lines, or a hundred usual ones.
const BYTES_PER_SECOND: i64 = 16 << 10;

/// Capacity of a bucket: two runs that write as much as a run may.
const BURST: i64 = 1 << 20;

/// The cost of a line besides its text: the row that it becomes.
const LINE_BYTES: usize = 128;

/// Number of buckets at which the full ones are removed.
const SWEEP_AT: usize = 1_024;

/// The buckets of all owners: tenants or plugins.
#[derive(Debug)]
pub struct LogShares<K> {
    buckets: Mutex<HashMap<K, Bucket>>,
    /// The metric that counts dropped lines.
    dropped: &'static str,
}

#[derive(Debug)]
struct Bucket {
    bytes: i64,
    at: Timestamp,
    dropped: Option<DroppedLines>,
}

/// Lines that were dropped since the last report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DroppedLines {
    pub lines: u64,
    /// The script or plugin that wrote the last of them.
    pub source: Arc<str>,
}

/// The owner's share is used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Full;

impl Bucket {
    fn fill(&mut self, now: Timestamp) {
        let passed = i128::from((now.0 - self.at.0).max(0));
        let gained = passed * i128::from(BYTES_PER_SECOND) / 1_000_000;
        self.bytes = (i128::from(self.bytes) + gained).min(i128::from(BURST)) as i64;
        self.at = now.max(self.at);
    }
}

impl<K: Clone + Eq + Hash> LogShares<K> {
    /// `dropped` names the metric that counts dropped lines.
    pub fn new(dropped: &'static str) -> Self {
        Self { buckets: Mutex::default(), dropped }
    }

    /// Takes a line of `bytes` out of its owner's share, and counts it when it does not fit. Whether it may be written, after a
    /// report of the lines that were dropped before it.
    pub fn admit(
        &self,
        owner: &K,
        source: &Arc<str>,
        bytes: usize,
        now: Timestamp,
        report: impl FnOnce(DroppedLines),
    ) -> bool {
        match self.take(owner, source, bytes, now) {
            Ok(None) => true,
            Ok(Some(dropped)) => {
                report(dropped);
                true
            }
            Err(Full) => {
                metrics::counter!(self.dropped).increment(1);
                false
            }
        }
    }

    fn take(
        &self,
        owner: &K,
        source: &Arc<str>,
        bytes: usize,
        now: Timestamp,
    ) -> Result<Option<DroppedLines>, Full> {
        let cost = (bytes + LINE_BYTES) as i64;
        let mut all = self.lock();
        if all.len() >= SWEEP_AT && !all.contains_key(owner) {
            all.retain(|_, bucket| {
                bucket.fill(now);
                bucket.bytes < BURST || bucket.dropped.is_some()
            });
        }
        let full = || Bucket { bytes: BURST, at: now, dropped: None };
        let bucket = all.entry(owner.clone()).or_insert_with(full);
        bucket.fill(now);
        if bucket.bytes < cost {
            let lines = bucket.dropped.as_ref().map_or(0, |dropped| dropped.lines) + 1;
            bucket.dropped = Some(DroppedLines { lines, source: Arc::clone(source) });
            return Err(Full);
        }
        bucket.bytes -= cost;
        Ok(bucket.dropped.take())
    }

    /// Takes the counts of dropped lines that no later line has reported.
    pub fn take_dropped(&self, now: Timestamp) -> Vec<DroppedLines> {
        let mut all = self.lock();
        let mut dropped = Vec::new();
        all.retain(|_, bucket| {
            bucket.fill(now);
            dropped.extend(bucket.dropped.take());
            bucket.bytes < BURST
        });
        dropped
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<K, Bucket>> {
        self.buckets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use belvedere_web::fair_share::Tenant;

    const SECOND: i64 = 1_000_000;

    #[test]
    fn a_flood_is_dropped_counted_and_reported_once() {
        let shares = LogShares::new("dropped");
        let (a, b) = (Tenant::client("a"), Tenant::client("b"));
        let source: Arc<str> = "xrpc.query:com.example.get".into();
        let take = |tenant, at| shares.take(tenant, &source, 4 << 10, Timestamp(at));
        let mut written = 0_i64;
        while take(&a, 0) == Ok(None) {
            written += 1;
            assert!(written < 1_000, "the bucket never empties");
        }
        assert_eq!(written, BURST / (LINE_BYTES as i64 + (4 << 10)));
        for _ in 1..10 {
            assert_eq!(take(&a, 0), Err(Full));
        }
        assert_eq!(take(&b, 0), Ok(None), "each tenant has a share of its own");
        let dropped = Some(DroppedLines { lines: 10, source: Arc::clone(&source) });
        assert_eq!(take(&a, SECOND), Ok(dropped));
        assert_eq!(take(&a, SECOND), Ok(None));
    }

    #[test]
    fn what_was_dropped_last_is_reported_too() {
        let shares = LogShares::new("dropped");
        let (a, source) = (Tenant::client("a"), Arc::from("job.run:x"));
        while shares.take(&a, &source, 4 << 10, Timestamp(0)) != Err(Full) {}
        assert_eq!(shares.take_dropped(Timestamp(1)), [DroppedLines { lines: 1, source }]);
        assert!(shares.take_dropped(Timestamp(2)).is_empty());
        shares.take_dropped(Timestamp(100 * SECOND));
        assert!(shares.buckets.lock().unwrap().is_empty(), "a full bucket is removed");
    }

    #[test]
    fn memory_is_bounded() {
        let shares = LogShares::new("dropped");
        for n in 0..10_000 {
            let _ = shares.take(&Tenant::client(n.to_string()), &"x".into(), 1, Timestamp(n * SECOND));
        }
        assert!(shares.buckets.lock().unwrap().len() <= SWEEP_AT);
    }
}
