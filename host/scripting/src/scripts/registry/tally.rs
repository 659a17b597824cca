//! Counts what each script uses: runs, failures, fuel, and how long its runs took. Kept with the compiled script, so
//! that counting is a few additions and there are as many tallies as there are scripts. A new source begins a new
//! tally.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use belvedere_base::clock::Timestamp;

/// Steps of the histogram between one power of two and the next: a percentile is at most a quarter too high.
const STEPS: u32 = 4;
/// Powers of two of a microsecond, up to an hour.
const POWERS: u32 = 32;
const BUCKETS: usize = (POWERS * STEPS) as usize;

/// Numbers the tallies.
static TALLIES: AtomicU64 = AtomicU64::new(0);

/// One script's counters since it was loaded.
#[derive(Debug)]
pub struct Tally {
    number: u64,
    runs: AtomicU64,
    failures: AtomicU64,
    fuel: AtomicU64,
    instructions: AtomicU64,
    guest_nanos: AtomicU64,
    took_nanos: AtomicU64,
    last_run_at: AtomicI64,
    /// Runs by the time they took from beginning to end, waits for the host included.
    durations: [AtomicU64; BUCKETS],
}

/// A run that has ended.
#[derive(Clone, Copy, Debug)]
pub(in crate::scripts) struct CountedRun {
    pub(in crate::scripts) failed: bool,
    pub(in crate::scripts) fuel: u64,
    /// `None` when they were not counted.
    pub(in crate::scripts) instructions: Option<u32>,
    pub(in crate::scripts) guest_time: Duration,
    /// From begin to end, waits included.
    pub(in crate::scripts) took: Duration,
    pub(in crate::scripts) at: Timestamp,
}

/// A snapshot of a tally.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TallySnapshot {
    /// Tells the tally from one of the same script's former source.
    pub number: u64,
    pub runs: u64,
    pub failures: u64,
    /// WebAssembly fuel of all runs.
    pub fuel: u64,
    /// Instructions of the runs whose instructions were counted: those during a rollout.
    pub instructions: u64,
    /// Guest time of all runs.
    pub guest_time: Duration,
    /// Time of all runs, waits included.
    pub took: Duration,
    /// Duration of one run, waits included; `None` before the first.
    pub p50: Option<Duration>,
    pub p99: Option<Duration>,
    pub last_run_at: Option<Timestamp>,
}

impl Default for Tally {
    fn default() -> Self {
        Self {
            number: TALLIES.fetch_add(1, Ordering::Relaxed),
            runs: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            fuel: AtomicU64::new(0),
            instructions: AtomicU64::new(0),
            guest_nanos: AtomicU64::new(0),
            took_nanos: AtomicU64::new(0),
            last_run_at: AtomicI64::new(0),
            durations: [const { AtomicU64::new(0) }; BUCKETS],
        }
    }
}

impl Tally {
    /// Counts a run that has ended.
    pub(in crate::scripts) fn count(&self, run: &CountedRun) {
        let CountedRun { failed, fuel, instructions, guest_time, took, at } = *run;
        self.runs.fetch_add(1, Ordering::Relaxed);
        self.failures.fetch_add(u64::from(failed), Ordering::Relaxed);
        self.fuel.fetch_add(fuel, Ordering::Relaxed);
        if let Some(instructions) = instructions {
            self.instructions.fetch_add(instructions.into(), Ordering::Relaxed);
        }
        self.guest_nanos.fetch_add(guest_time.as_nanos() as u64, Ordering::Relaxed);
        self.took_nanos.fetch_add(took.as_nanos() as u64, Ordering::Relaxed);
        self.last_run_at.store(at.0, Ordering::Relaxed);
        self.durations[bucket(took)].fetch_add(1, Ordering::Relaxed);
    }

    pub fn read(&self) -> TallySnapshot {
        let runs = self.runs.load(Ordering::Relaxed);
        let counts = self.durations.each_ref().map(|count| count.load(Ordering::Relaxed));
        TallySnapshot {
            number: self.number,
            runs,
            failures: self.failures.load(Ordering::Relaxed),
            fuel: self.fuel.load(Ordering::Relaxed),
            instructions: self.instructions.load(Ordering::Relaxed),
            guest_time: Duration::from_nanos(self.guest_nanos.load(Ordering::Relaxed)),
            took: Duration::from_nanos(self.took_nanos.load(Ordering::Relaxed)),
            p50: percentile(&counts, 50),
            p99: percentile(&counts, 99),
            last_run_at: (runs > 0).then(|| Timestamp(self.last_run_at.load(Ordering::Relaxed))),
        }
    }
}

fn bucket(took: Duration) -> usize {
    let micros = took.as_micros().clamp(1, u128::from(u32::MAX)) as u32;
    let power = micros.ilog2();
    // The two bits below the highest one.
    let step = ((u64::from(micros) * u64::from(STEPS)) >> power) as u32 - STEPS;
    (power * STEPS + step) as usize
}

/// The longest duration that falls into a bucket.
fn upper_bound(bucket: usize) -> Duration {
    let (power, step) = (bucket as u32 / STEPS, bucket as u32 % STEPS);
    Duration::from_micros(((u64::from(STEPS + step) + 1) << power).div_ceil(u64::from(STEPS)))
}

fn percentile(counts: &[u64], percent: u64) -> Option<Duration> {
    let runs: u64 = counts.iter().sum();
    let rank = (runs * percent).div_ceil(100);
    let mut seen = 0;
    let found = counts.iter().position(|count| {
        seen += count;
        runs > 0 && seen >= rank
    });
    found.map(upper_bound)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tally_counts_runs_and_durations() {
        let tally = Tally::default();
        assert_eq!((tally.read().runs, tally.read().p99, tally.read().last_run_at), (0, None, None));
        let (fuel, guest) = (1_000, Duration::from_micros(10));
        for n in 1..=100_u64 {
            let (took, at) = (Duration::from_micros(n * 100), Timestamp(n as i64));
            let failed = n % 10 == 0;
            tally.count(&CountedRun { failed, fuel, instructions: Some(5), guest_time: guest, took, at });
        }
        let read = tally.read();
        assert_eq!((read.runs, read.failures, read.fuel), (100, 10, 100_000));
        assert_eq!((read.instructions, read.took), (500, Duration::from_millis(505)));
        assert_eq!((read.guest_time, read.last_run_at), (Duration::from_millis(1), Some(Timestamp(100))));
        let near = |found: Option<Duration>, exact: u64| {
            let micros = found.unwrap().as_micros() as u64;
            assert!(micros >= exact && micros <= exact * 5 / 4, "{micros} for {exact}");
        };
        near(read.p50, 5_000);
        near(read.p99, 9_900);
    }

    #[test]
    fn every_duration_has_a_bucket_that_holds_it() {
        for micros in (0..64).map(|power| 1_u64 << power).flat_map(|n| [n - 1, n, n + n / 3]) {
            let took = Duration::from_micros(micros);
            let bound = upper_bound(bucket(took));
            assert!(bound >= took || micros > u64::from(u32::MAX), "{took:?} {bound:?}");
        }
    }
}
