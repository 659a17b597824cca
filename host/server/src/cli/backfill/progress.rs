//! Renders the progress of a backfill as a line: a bar, counts, rates and the time left.

use std::collections::VecDeque;
use std::time::Duration;

use serde::Deserialize;

use super::super::display::{bar, grouped};
use belvedere_storage::store::status::{BackfillStatus, Stage};

/// Time over which rates are measured: long enough to be steady, short enough to follow a change.
const RATE_WINDOW: Duration = Duration::from_secs(15);

/// A job, as the server shows it.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Job {
    pub(super) id: String,
    pub(super) status: BackfillStatus,
    pub(super) stage: Stage,
    pub(super) total_repos: Option<u64>,
    pub(super) processed_repos: Option<u64>,
    pub(super) failed_repos: Option<u64>,
    pub(super) total_records: Option<u64>,
    pub(super) error: Option<String>,
}

/// The counts of one look at the job.
#[derive(Clone, Copy, Debug)]
struct Sample {
    at: Duration,
    found: u64,
    processed: u64,
    records: u64,
}

/// The latest samples, of which rates are made.
#[derive(Debug, Default)]
pub(super) struct Progress {
    samples: VecDeque<Sample>,
}

impl Progress {
    /// The line for the job's present state. `before` is the number of jobs in the queue before it, `at` the time since
    /// the first look.
    pub(super) fn line(&mut self, job: &Job, before: usize, at: Duration) -> String {
        if job.status != BackfillStatus::Running {
            // A stop must not lower the rate after the job continues.
            self.samples.clear();
        }
        match (job.status, job.stage) {
            (BackfillStatus::Paused, _) => {
                format!("paused; POST /admin/backfill/{}/resume continues it", job.id)
            }
            (BackfillStatus::Pausing | BackfillStatus::Cancelling, _) => format!("{} …", job.status),
            (_, Stage::Pending) if before > 0 => format!("waiting for {before} other backfills"),
            (_, Stage::Pending) => "waiting to start".to_owned(),
            (_, Stage::DiscoveringRepos) => {
                let rates = self.add(job, at);
                format!(
                    "finding repos: {} found, {}/s",
                    grouped(job.total_repos.unwrap_or_default()),
                    per_second(rates.found)
                )
            }
            _ => {
                let rates = self.add(job, at);
                fetching(job, rates)
            }
        }
    }

    /// Adds a sample and returns the rates per second over the window.
    fn add(&mut self, job: &Job, at: Duration) -> Rates {
        let sample = Sample {
            at,
            found: job.total_repos.unwrap_or_default(),
            processed: job.processed_repos.unwrap_or_default(),
            records: job.total_records.unwrap_or_default(),
        };
        self.samples.push_back(sample);
        while self.samples.len() > 2
            && self.samples.front().is_some_and(|first| at.saturating_sub(first.at) > RATE_WINDOW)
        {
            self.samples.pop_front();
        }
        let first = self.samples.front().copied().unwrap_or(sample);
        let seconds = at.saturating_sub(first.at).as_secs_f64();
        let rate = |now: u64, then: u64| {
            if seconds > 0.0 { now.saturating_sub(then) as f64 / seconds } else { 0.0 }
        };
        Rates {
            found: rate(sample.found, first.found),
            processed: rate(sample.processed, first.processed),
            records: rate(sample.records, first.records),
        }
    }
}

/// Per second.
#[derive(Clone, Copy, Debug)]
struct Rates {
    found: f64,
    processed: f64,
    records: f64,
}

fn fetching(job: &Job, rates: Rates) -> String {
    let (total, processed) = (job.total_repos.unwrap_or_default(), job.processed_repos.unwrap_or_default());
    let processed = processed.min(total);
    let left = if rates.processed > 0.0 {
        let seconds = (total - processed) as f64 / rates.processed;
        format!("{} left", spoken(Duration::from_secs_f64(seconds.min(MAX_SECONDS_LEFT))))
    } else {
        "time left unknown".to_owned()
    };
    let failed = match job.failed_repos.unwrap_or_default() {
        0 => String::new(),
        failed => format!(", {} failed", grouped(failed)),
    };
    format!(
        "{}  {}/{} repos{failed}  {} records  {} repos/s  {} records/s  {left}",
        bar(processed, total),
        grouped(processed),
        grouped(total),
        grouped(job.total_records.unwrap_or_default()),
        per_second(rates.processed),
        per_second(rates.records),
    )
}

/// A year: more is as good as unknown.
const MAX_SECONDS_LEFT: f64 = 365.0 * 24.0 * 3600.0;

/// One decimal below ten, none above.
fn per_second(rate: f64) -> String {
    if rate < 9.95 { format!("{rate:.1}") } else { grouped(rate.round() as u64) }
}

/// `1h 02m`, `2m 05s`, `7s`.
fn spoken(time: Duration) -> String {
    let seconds = time.as_secs();
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, s) => format!("{s}s"),
        (0, m, s) => format!("{m}m {s:02}s"),
        (h, m, _) => format!("{h}h {m:02}m"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(stage: Stage, total: u64, processed: u64, records: u64) -> Job {
        Job {
            id: "1".to_owned(),
            status: BackfillStatus::Running,
            stage,
            total_repos: Some(total),
            processed_repos: Some(processed),
            failed_repos: None,
            total_records: Some(records),
            error: None,
        }
    }

    #[test]
    fn a_line_has_a_bar_counts_rates_and_the_time_left() {
        let mut progress = Progress::default();
        let seconds = Duration::from_secs;
        let stage = Stage::ResolvingAndFetching;
        let first = progress.line(&job(stage, 4_000, 0, 0), 0, seconds(0));
        assert!(first.starts_with("[------------------------] 0%  0/4,000 repos"), "{first}");
        assert!(first.ends_with("time left unknown"), "{first}");
        let second = progress.line(&job(stage, 4_000, 1_000, 250_000), 0, seconds(10));
        let expected = "[######------------------] 25%  1,000/4,000 repos  250,000 records  100 repos/s  \
                        25,000 records/s  30s left";
        assert_eq!(second, expected);
        let failing = Job { failed_repos: Some(1_047), ..job(stage, 4_000, 1_000, 250_000) };
        let line = progress.line(&failing, 0, seconds(10));
        assert!(line.contains(" 1,000/4,000 repos, 1,047 failed  250,000 records "), "{line}");
        // Old samples no longer count.
        progress.line(&job(stage, 4_000, 1_010, 250_000), 0, seconds(20));
        let last = progress.line(&job(stage, 4_000, 1_020, 250_000), 0, seconds(30));
        assert!(last.contains(" 1.0 repos/s  0.0 records/s  49m 40s left"), "{last}");
    }

    #[test]
    fn other_states_say_what_the_job_waits_for() {
        let mut progress = Progress::default();
        let mut line = |job: &Job, before, at| progress.line(job, before, Duration::from_secs(at));
        assert_eq!(line(&job(Stage::Pending, 0, 0, 0), 2, 0), "waiting for 2 other backfills");
        assert_eq!(line(&job(Stage::Pending, 0, 0, 0), 0, 0), "waiting to start");
        assert_eq!(
            line(&job(Stage::DiscoveringRepos, 1_000, 0, 0), 0, 1),
            "finding repos: 1,000 found, 0.0/s"
        );
        assert_eq!(
            line(&job(Stage::DiscoveringRepos, 23_000, 0, 0), 0, 2),
            "finding repos: 23,000 found, 22,000/s"
        );
        let paused = Job { status: BackfillStatus::Paused, ..job(Stage::ResolvingAndFetching, 9, 3, 7) };
        assert!(line(&paused, 0, 3).contains("/admin/backfill/1/resume"));
        // The rate after a pause does not include the pause.
        let resumed = line(&job(Stage::ResolvingAndFetching, 9, 3, 7), 0, 1_000);
        assert!(resumed.ends_with("time left unknown"), "{resumed}");
    }

    #[test]
    fn nothing_to_read_and_more_than_expected_are_no_error() {
        let mut progress = Progress::default();
        let stage = Stage::ResolvingAndFetching;
        let line = progress.line(&job(stage, 0, 0, 0), 0, Duration::ZERO);
        assert!(line.starts_with("[------------------------] 0%  0/0 repos"), "{line}");
        let line = progress.line(&job(stage, 3, 5, 0), 0, Duration::from_secs(1));
        assert!(line.contains("100%  3/3 repos") && line.ends_with(" 0s left"), "{line}");
    }

    #[test]
    fn times_and_rates_are_short() {
        for (seconds, text) in [(7, "7s"), (125, "2m 05s"), (3_720, "1h 02m")] {
            assert_eq!(spoken(Duration::from_secs(seconds)), text);
        }
        assert_eq!(per_second(0.04), "0.0");
        assert_eq!(per_second(9.96), "10");
    }
}
