//! Bounds what scripts and plugins write to the logs, with a token bucket in bytes for each tenant or plugin. A program
//! that logs in a loop loses its own lines, and fills neither the disk nor the writer that all share.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

use belvedere_base::clock::Timestamp;

/// Bytes a second that an owner may write on average: four of the longest lines, or a hundred usual ones.
const BYTES_PER_SECOND: i64 = 16 << 10;

/// Capacity of a bucket: two runs that write as much as a run may.
const BURST: i64 = 1 << 20;

/// What a line costs besides its text: the row that it becomes.
const LINE_BYTES: usize = 128;

/// Number of buckets at which the full ones are removed.
const SWEEP_AT: usize = 1_024;

/// The buckets of all owners: tenants or plugins.
#[derive(Debug)]
pub struct LogShares<K>(Mutex<HashMap<K, Bucket>>);

impl<K> Default for LogShares<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
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

/// Whether a line is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The line is written, after a report of the lines that were dropped before it.
    Written(Option<DroppedLines>),
    Dropped,
}

impl Bucket {
    fn fill(&mut self, now: Timestamp) {
        let passed = i128::from((now.0 - self.at.0).max(0));
        let gained = passed * i128::from(BYTES_PER_SECOND) / 1_000_000;
        self.bytes = (i128::from(self.bytes) + gained).min(i128::from(BURST)) as i64;
        self.at = now.max(self.at);
    }
}

impl<K: Clone + Eq + Hash> LogShares<K> {
    /// Takes a line of `bytes` out of its owner's share.
    pub fn take(&self, owner: &K, source: &Arc<str>, bytes: usize, now: Timestamp) -> Verdict {
        let cost = (bytes + LINE_BYTES) as i64;
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
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
            return Verdict::Dropped;
        }
        bucket.bytes -= cost;
        Verdict::Written(bucket.dropped.take())
    }

    /// Takes the counts of dropped lines that no later line has reported.
    pub fn take_dropped(&self, now: Timestamp) -> Vec<DroppedLines> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut dropped = Vec::new();
        all.retain(|_, bucket| {
            bucket.fill(now);
            dropped.extend(bucket.dropped.take());
            bucket.bytes < BURST
        });
        dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use belvedere_web::fair_share::Tenant;

    const SECOND: i64 = 1_000_000;

    #[test]
    fn a_flood_is_dropped_counted_and_reported_once() {
        let shares = LogShares::default();
        let (a, b) = (Tenant::client("a"), Tenant::client("b"));
        let source: Arc<str> = "xrpc.query:com.example.get".into();
        let take = |tenant, at| shares.take(tenant, &source, 4 << 10, Timestamp(at));
        let mut written = 0_i64;
        while take(&a, 0) == Verdict::Written(None) {
            written += 1;
            assert!(written < 1_000, "the bucket never empties");
        }
        assert_eq!(written, BURST / (LINE_BYTES as i64 + (4 << 10)));
        for _ in 1..10 {
            assert_eq!(take(&a, 0), Verdict::Dropped);
        }
        assert_eq!(take(&b, 0), Verdict::Written(None), "each tenant has a share of its own");
        let dropped = Some(DroppedLines { lines: 10, source: Arc::clone(&source) });
        assert_eq!(take(&a, SECOND), Verdict::Written(dropped));
        assert_eq!(take(&a, SECOND), Verdict::Written(None));
    }

    #[test]
    fn what_was_dropped_last_is_reported_too() {
        let shares = LogShares::default();
        let (a, source) = (Tenant::client("a"), Arc::from("job.run:x"));
        while shares.take(&a, &source, 4 << 10, Timestamp(0)) != Verdict::Dropped {}
        assert_eq!(shares.take_dropped(Timestamp(1)), [DroppedLines { lines: 1, source }]);
        assert!(shares.take_dropped(Timestamp(2)).is_empty());
        shares.take_dropped(Timestamp(100 * SECOND));
        assert!(shares.0.lock().unwrap().is_empty(), "a full bucket is removed");
    }

    #[test]
    fn memory_is_bounded() {
        let shares = LogShares::default();
        for n in 0..10_000 {
            shares.take(&Tenant::client(n.to_string()), &"x".into(), 1, Timestamp(n * SECOND));
        }
        assert!(shares.0.lock().unwrap().len() <= SWEEP_AT);
    }
}
