//! What each tenant's scripts may write to the logs: a token bucket in bytes. A script that logs in a loop then costs its
//! own lines, and neither the disk nor the writer that all share.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::clock::Timestamp;
use crate::fair_share::Tenant;

/// Bytes a second that a tenant's scripts may write on average: four of the longest lines, or a hundred usual ones.
const BYTES_PER_SECOND: i64 = 16 << 10;

/// Bytes that may come at once: two runs that write all that a run may.
const BURST: i64 = 1 << 20;

/// What a line costs beside its text: the row that it becomes.
const LINE_BYTES: usize = 128;

/// Tenants remembered before those whose bucket is full again are forgotten.
const SWEEP_AT: usize = 1_024;

/// All tenants' buckets.
#[derive(Debug, Default)]
pub(super) struct LogShares(Mutex<HashMap<Tenant, Bucket>>);

#[derive(Debug)]
struct Bucket {
    bytes: i64,
    at: Timestamp,
    dropped: Option<Dropped>,
}

/// Lines that were dropped since the last report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Dropped {
    pub(super) lines: u64,
    /// Of the script that wrote the last of them.
    pub(super) trigger: Arc<str>,
}

/// What becomes of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is written, behind a report of what was dropped before it.
    Written(Option<Dropped>),
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

impl LogShares {
    /// Takes a line of `bytes` out of its tenant's share.
    pub(super) fn take(&self, tenant: &Tenant, trigger: &Arc<str>, bytes: usize, now: Timestamp) -> Verdict {
        let cost = (bytes + LINE_BYTES) as i64;
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= SWEEP_AT && !all.contains_key(tenant) {
            all.retain(|_, bucket| {
                bucket.fill(now);
                bucket.bytes < BURST || bucket.dropped.is_some()
            });
        }
        let full = || Bucket { bytes: BURST, at: now, dropped: None };
        let bucket = all.entry(tenant.clone()).or_insert_with(full);
        bucket.fill(now);
        if bucket.bytes < cost {
            let lines = bucket.dropped.as_ref().map_or(0, |dropped| dropped.lines) + 1;
            bucket.dropped = Some(Dropped { lines, trigger: Arc::clone(trigger) });
            return Verdict::Dropped;
        }
        bucket.bytes -= cost;
        Verdict::Written(bucket.dropped.take())
    }

    /// What was dropped of tenants that have written nothing since, although they might have.
    pub(super) fn overdue(&self, now: Timestamp) -> Vec<Dropped> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut overdue = Vec::new();
        all.retain(|_, bucket| {
            bucket.fill(now);
            overdue.extend(bucket.dropped.take());
            bucket.bytes < BURST
        });
        overdue
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000;

    #[test]
    fn a_flood_is_dropped_counted_and_reported_once() {
        let shares = LogShares::default();
        let (a, b) = (Tenant::client("a"), Tenant::client("b"));
        let trigger: Arc<str> = "xrpc.query:com.example.get".into();
        let take = |tenant, at| shares.take(tenant, &trigger, 4 << 10, Timestamp(at));
        let mut written = 0_i64;
        while take(&a, 0) == Verdict::Written(None) {
            written += 1;
            assert!(written < 1_000, "there is an end to it");
        }
        assert_eq!(written, BURST / (LINE_BYTES as i64 + (4 << 10)));
        for _ in 1..10 {
            assert_eq!(take(&a, 0), Verdict::Dropped);
        }
        assert_eq!(take(&b, 0), Verdict::Written(None), "the other's share is its own");
        let dropped = Some(Dropped { lines: 10, trigger: Arc::clone(&trigger) });
        assert_eq!(take(&a, SECOND), Verdict::Written(dropped));
        assert_eq!(take(&a, SECOND), Verdict::Written(None));
    }

    #[test]
    fn what_was_dropped_last_is_reported_too() {
        let shares = LogShares::default();
        let (a, trigger) = (Tenant::client("a"), Arc::from("job.run:x"));
        while shares.take(&a, &trigger, 4 << 10, Timestamp(0)) != Verdict::Dropped {}
        assert_eq!(shares.overdue(Timestamp(1)), [Dropped { lines: 1, trigger }]);
        assert!(shares.overdue(Timestamp(2)).is_empty());
        shares.overdue(Timestamp(100 * SECOND));
        assert!(shares.0.lock().unwrap().is_empty(), "a full bucket says nothing");
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
