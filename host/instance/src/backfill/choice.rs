//! Chooses between the two sources of a repo's records: pages, and the whole repo as a CAR.
//!
//! Pages cost a request for each hundred records, and give nothing else. A CAR is one request and has all collections,
//! and how large it is shows only while it arrives. So every repo begins with pages; a CAR is requested when more pages
//! would follow and (nearly) all collections of the repo are wanted. The bytes that the job kept limit the waste of
//! CARs.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Semaphore;

use super::meter::Meter;
use belvedere_protocol::atproto::Nsid;

/// Bytes of the largest CAR that is read: above 100,000 records of the usual size. Larger repos are read in pages.
pub(super) const MAX_CAR_BYTES: usize = 32 << 20;

/// Units of memory for all CARs that are read at the same time. With buffers and the list of blocks, memory use is up to
/// three times as much.
const MEMORY_UNITS: usize = 64;

/// A CAR with unwanted collections is requested only if it may have this many times the bytes of the pages that the repo
/// has given so far: otherwise it probably does not fit.
const MIN_GAIN: i64 = 4;

/// Failures in a row after which a host is not asked for CARs any more in this job.
const MAX_FAILURES: u32 = 3;

/// Hosts whose failures are remembered. More than have this many long repos are not asked for CARs.
const MAX_HOSTS: usize = 10_000;

/// Invalid CARs that a job logs as warnings; `belvedere_backfill_cars_total` counts all.
const MAX_WARNINGS: u32 = 100;

/// The part of a repo that is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    All,
    /// At least half of its collections.
    Most,
    Little,
}

/// The part that is wanted of a repo that has the collections `present`.
pub(super) fn wanted(present: &[String], collections: &[Nsid]) -> Wanted {
    let is_wanted = |name: &&String| collections.iter().any(|nsid| nsid.as_str() == name.as_str());
    let wanted = present.iter().filter(is_wanted).count();
    match present.len() - wanted {
        _ if wanted == 0 => Wanted::Little,
        0 => Wanted::All,
        foreign if foreign <= wanted => Wanted::Most,
        _ => Wanted::Little,
    }
}

/// The result of a request for a CAR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Read,
    /// The host has none, or not for this server.
    Refused,
    Failed,
    TooLarge,
    NoMemory,
    Invalid,
}

impl Outcome {
    fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Refused => "refused",
            Self::Failed => "failed",
            Self::TooLarge => "too_large",
            Self::NoMemory => "no_memory",
            Self::Invalid => "invalid",
        }
    }
}

/// A job's knowledge about CARs.
#[derive(Debug)]
pub(super) struct Cars {
    /// In units of `request::MEMORY_UNIT`.
    pub(super) memory: Arc<Semaphore>,
    meter: Arc<Meter>,
    /// Bytes of CARs that were of no use.
    wasted: AtomicI64,
    /// Failures in a row by host; hosts without any are missing.
    failures: Mutex<HashMap<String, u32>>,
    warnings: AtomicU32,
}

impl Cars {
    pub(super) fn new(meter: Arc<Meter>) -> Self {
        Self {
            memory: Arc::new(Semaphore::new(MEMORY_UNITS)),
            meter,
            wasted: AtomicI64::new(0),
            failures: Mutex::default(),
            warnings: AtomicU32::new(0),
        }
    }

    /// Whether the host may be asked for a CAR.
    pub(super) fn permits(&self, host: &str) -> bool {
        let failures = self.failures();
        let known = failures.get(host).copied();
        known.map_or(failures.len() < MAX_HOSTS, |count| count < MAX_FAILURES)
    }

    /// The most bytes that the CAR of a repo may have; `None`: pages are cheaper. `present`: the repo's collections.
    /// `page_bytes`: what its pages had so far.
    pub(super) fn max_bytes(&self, present: &[String], wanted: &[Nsid], page_bytes: i64) -> Option<usize> {
        match self::wanted(present, wanted) {
            Wanted::All => return Some(MAX_CAR_BYTES),
            Wanted::Most => {}
            Wanted::Little => return None,
        }
        // Either source takes up to twice the bytes of its records: with this, a job stays below three times.
        let allowance = self.meter.traffic().bytes_kept / 2 - self.wasted.load(Ordering::Relaxed);
        let allowance = usize::try_from(allowance).ok().filter(|_| allowance >= MIN_GAIN * page_bytes)?;
        Some(allowance.min(MAX_CAR_BYTES))
    }

    /// After a request for a CAR, of which `wasted` bytes were of no use. Returns whether the host is not asked again.
    pub(super) fn ended(&self, host: &str, outcome: Outcome, wasted: usize) -> bool {
        metrics::counter!("belvedere_backfill_cars_total", "result" => outcome.as_str()).increment(1);
        self.wasted.fetch_add(wasted as i64, Ordering::Relaxed);
        let mut failures = self.failures();
        match outcome {
            Outcome::Read => {
                failures.remove(host);
                return false;
            }
            // Not the host's fault; nor is it if less than is allowed was too little.
            Outcome::NoMemory => return false,
            Outcome::TooLarge if wasted < MAX_CAR_BYTES / 2 => return false,
            Outcome::Refused | Outcome::Failed | Outcome::TooLarge | Outcome::Invalid => {}
        }
        let count = failures.entry(host.to_owned()).or_default();
        *count = if outcome == Outcome::Refused { MAX_FAILURES } else { *count + 1 };
        *count == MAX_FAILURES
    }

    /// Whether another invalid CAR may be logged as a warning. Counts the warnings.
    pub(super) fn may_warn(&self) -> bool {
        self.warnings.fetch_add(1, Ordering::Relaxed) < MAX_WARNINGS
    }

    fn failures(&self) -> MutexGuard<'_, HashMap<String, u32>> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The bytes of a CAR that were of no use, if `kept` bytes of it were. Twice as many are usual.
pub(super) fn wasted(bytes: usize, kept: usize) -> usize {
    bytes.saturating_sub(2 * kept)
}

#[cfg(test)]
mod tests {
    use super::*;
    use belvedere_storage::store::backfill::Traffic;

    fn nsids(names: &[&str]) -> Vec<Nsid> {
        names.iter().map(|name| Nsid::try_from(*name).unwrap()).collect()
    }

    fn cars(bytes_kept: i64) -> Cars {
        Cars::new(Arc::new(Meter::from(Traffic { bytes_kept, ..Traffic::default() })))
    }

    const A: &str = "com.example.a";
    const B: &str = "com.example.b";

    #[test]
    fn a_car_is_chosen_where_all_collections_are_wanted() {
        let wanted = nsids(&[A, B]);
        let max = |present: &[&str], kept, page_bytes| {
            let present: Vec<String> = present.iter().map(|name| (*name).to_owned()).collect();
            cars(kept).max_bytes(&present, &wanted, page_bytes)
        };
        assert_eq!(max(&[A], 0, 50_000), Some(MAX_CAR_BYTES));
        assert_eq!(max(&[A, B], 0, 50_000), Some(MAX_CAR_BYTES));
        assert_eq!(max(&[], 0, 50_000), None, "the PDS contradicts its own pages");
        assert_eq!(max(&["x.y.z"], 1 << 40, 50_000), None);
        assert_eq!(max(&[A, "x.y.z", "x.y.w"], 1 << 40, 50_000), None, "most is not wanted");
        // With one other collection, within what the job has kept.
        assert_eq!(max(&[A, "x.y.z"], 0, 50_000), None);
        assert_eq!(max(&[A, "x.y.z"], 399_999, 50_000), None);
        assert_eq!(max(&[A, "x.y.z"], 400_000, 50_000), Some(200_000));
        assert_eq!(max(&[A, "x.y.z"], i64::MAX, 50_000), Some(MAX_CAR_BYTES));
    }

    #[test]
    fn waste_uses_up_what_cars_with_other_collections_may_cost() {
        let (cars, wanted) = (cars(400_000), nsids(&[A]));
        let present = [A.to_owned(), "x.y.z".to_owned()];
        assert_eq!(cars.max_bytes(&present, &wanted, 1_000), Some(200_000));
        cars.ended("host", Outcome::Read, wasted(100_000, 30_000));
        cars.ended("host", Outcome::Read, wasted(100_000, 80_000));
        assert_eq!(cars.max_bytes(&present, &wanted, 1_000), Some(160_000));
        cars.ended("host", Outcome::TooLarge, 160_000);
        assert_eq!(cars.max_bytes(&present, &wanted, 1_000), None);
    }

    #[test]
    fn a_host_that_refuses_or_keeps_failing_is_not_asked_again() {
        let cars = cars(0);
        let end = |host, outcome| cars.ended(host, outcome, 0);
        assert!(end("refuses", Outcome::Refused) && !cars.permits("refuses"));
        assert!(!end("fails", Outcome::Failed) && !end("fails", Outcome::Invalid));
        assert!(cars.permits("fails") && cars.permits("other"));
        let too_large = |bytes| cars.ended("fails", Outcome::TooLarge, bytes);
        assert!(!end("fails", Outcome::NoMemory) && !too_large(100_000));
        assert!(cars.permits("fails"), "not its fault");
        assert!(!end("fails", Outcome::Read));
        assert!(!too_large(MAX_CAR_BYTES) && !too_large(MAX_CAR_BYTES));
        assert!(end("fails", Outcome::Invalid) && !cars.permits("fails"));
        assert!(!end("fails", Outcome::Invalid), "reported once");
        for n in 0..MAX_HOSTS {
            cars.ended(&n.to_string(), Outcome::Failed, 0);
        }
        assert!(cars.permits("7") && !cars.permits("one more"));
        let warned = (0..MAX_WARNINGS + 5).filter(|_| cars.may_warn()).count();
        assert_eq!(warned, MAX_WARNINGS as usize);
    }
}
