//! Counts in memory, and adds the counts to the store now and then.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::{Measure, latencies};
use belvedere_base::clock::{Clock, Timestamp};
use belvedere_protocol::atproto::app_of;
use belvedere_storage::store::metric_history::{self, NewSample, Sample};
use belvedere_storage::store::metric_resolution::Resolution;
use belvedere_storage::store::{Db, StoreError};

/// Seconds for which steps of a length are kept: minutes for a chart of an hour and of the hour before it, those of five minutes for a
/// week, and hours for a chart of 30 days and of the 30 days before.
pub const fn kept_seconds(resolution: Resolution) -> i64 {
    match resolution {
        Resolution::Minute => 6 * 3_600,
        Resolution::FiveMinutes => 7 * 86_400,
        Resolution::Hour => 62 * 86_400,
    }
}

/// Interval at which counts are added to the store. A crash loses the counts since then.
pub const FLUSH_EVERY: Duration = Duration::from_secs(20);

/// Labels of one measure that a host counts separately within an hour; the others share one. It bounds the rows of steps of all
/// lengths: a host stores at most 101 for each measure and step.
const MAX_LABELS: usize = 100;

/// The label that those beyond [`MAX_LABELS`] share.
pub(super) const OTHER: &str = "(other)";

/// Counts what this host does. Cheap to clone.
#[derive(Clone, Debug)]
pub struct History(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    clock: Clock,
    counts: Mutex<Counts>,
}

/// The counts that are not stored yet.
#[derive(Debug, Default)]
struct Counts {
    /// The minute that is being counted.
    step: Timestamp,
    /// The labels that are counted separately in the hour of `step`.
    labels: [HashSet<String>; Measure::COUNT],
    by_measure: [HashMap<String, Sample>; Measure::COUNT],
    /// The counts of earlier steps, and those that could not be stored. By step first, so that the oldest are dropped
    /// first. A statement may name each row once only.
    ended: BTreeMap<(Timestamp, &'static str, String), Sample>,
}

impl History {
    pub fn new(clock: Clock) -> Self {
        Self(Arc::new(Inner { clock, counts: Mutex::default() }))
    }

    /// Adds to the present step. `value` is that of each of `count` measurements.
    pub fn record(&self, measure: Measure, label: &str, count: i64, value: f64) {
        let sample = Sample { count, total: value * count as f64, max: value, ..Sample::default() };
        self.lock().add(measure, label, sample);
    }

    /// An XRPC call that has ended: `failed` by this server's fault; `client` is the id of an API client.
    pub fn request(&self, method: &str, client: &str, took: Duration, failed: bool) {
        let millis = took.as_secs_f64() * 1e3;
        let app_and_client = format!("{} {client}", app_of(method));
        let mut counts = self.lock();
        let buckets = latencies::one(millis);
        counts.add(Measure::Requests, method, Sample { count: 1, total: millis, max: millis, buckets });
        let one = Sample { count: 1, ..Sample::default() };
        counts.add(Measure::ClientRequests, client, one);
        counts.add(Measure::AppRequests, &app_and_client, one);
        if failed {
            counts.add(Measure::RequestErrors, method, one);
        }
    }

    /// Adds everything counted so far to the store. Counts that can't be stored are kept for the next time.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn flush(&self, db: &Db) -> Result<(), StoreError> {
        let samples = self.lock().take();
        if samples.is_empty() {
            return Ok(());
        }
        let stored = metric_history::add(db, &samples).await;
        if stored.is_err() {
            self.lock().give_back(samples);
        }
        stored
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        // Poisoning is ignored: a count that is missing is no harm.
        let mut counts = self.0.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.begin(Resolution::Minute.step_of(self.0.clock.now()));
        counts
    }
}

/// Samples of ended steps that wait for a database that fails: those of an hour or more. More would only fill memory.
const MAX_ENDED: usize = 20_000;

impl Counts {
    fn begin(&mut self, step: Timestamp) {
        if self.step != step {
            let ended = self.take();
            self.give_back(ended);
            if Resolution::Hour.step_of(self.step) != Resolution::Hour.step_of(step) {
                self.labels.iter_mut().for_each(HashSet::clear);
            }
            self.step = step;
        }
    }

    fn add(&mut self, measure: Measure, label: &str, sample: Sample) {
        let (counts, labels) = (&mut self.by_measure[measure as usize], &mut self.labels[measure as usize]);
        if let Some(known) = counts.get_mut(label) {
            known.add(sample);
            return;
        }
        // PostgreSQL's text can't contain U+0000.
        let mut label = label.replace('\0', "\u{fffd}");
        if !labels.contains(&label) {
            if labels.len() < MAX_LABELS {
                labels.insert(label.clone());
            } else {
                OTHER.clone_into(&mut label);
            }
        }
        counts.entry(label).or_default().add(sample);
    }

    fn take(&mut self) -> Vec<NewSample> {
        let mut samples = std::mem::take(&mut self.ended);
        for (measure, labels) in ALL.into_iter().zip(&mut self.by_measure) {
            for (label, sample) in labels.drain() {
                samples.entry((self.step, measure.as_str(), label)).or_default().add(sample);
            }
        }
        samples.into_iter().map(|((step, metric, label), sample)| (metric, step, label, sample)).collect()
    }

    fn give_back(&mut self, samples: Vec<NewSample>) {
        for (metric, step, label, sample) in samples {
            self.ended.entry((step, metric, label)).or_default().add(sample);
        }
        while self.ended.len() > MAX_ENDED {
            self.ended.pop_first();
        }
    }
}

/// In the order of their numbers.
const ALL: [Measure; Measure::COUNT] = [
    Measure::StreamEvents,
    Measure::StreamLag,
    Measure::Requests,
    Measure::RequestErrors,
    Measure::ClientRequests,
    Measure::AppRequests,
    Measure::ScriptRuns,
    Measure::ScriptErrors,
    Measure::ScriptInstructions,
    Measure::ClientRateLimited,
    Measure::RecordsWritten,
    Measure::RecordsDeleted,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measures_are_counted_by_step_and_label() {
        for (n, measure) in ALL.into_iter().enumerate() {
            assert_eq!(measure as usize, n);
        }
        let clock = Clock::fixed(Timestamp(0).plus_seconds(59));
        let history = History::new(clock.clone());
        history.request("a", "me", Duration::from_millis(4), false);
        history.request("a", "me", Duration::from_millis(8), true);
        clock.set(Timestamp(0).plus_seconds(60));
        history.request("a", "you", Duration::from_millis(1), false);
        history.record(Measure::StreamLag, "", 1, 2.5);
        let mut samples = history.lock().take();
        samples.sort_by(|a, b| (a.1, a.0, &a.2).cmp(&(b.1, b.0, &b.2)));
        let [zero, one] = [0, 60].map(|second| Timestamp(0).plus_seconds(second));
        let sample = |count, total, max| Sample { count, total, max, ..Sample::default() };
        let (first, second) = (latencies::one(4.0), latencies::one(8.0));
        let mut of_both = sample(2, 12.0, 8.0);
        of_both.buckets = std::array::from_fn(|n| first[n] + second[n]);
        assert_eq!(
            samples,
            [
                ("app_requests", zero, "a me".to_owned(), sample(2, 0.0, 0.0)),
                ("client_requests", zero, "me".to_owned(), sample(2, 0.0, 0.0)),
                ("request_errors", zero, "a".to_owned(), sample(1, 0.0, 0.0)),
                ("requests", zero, "a".to_owned(), of_both),
                ("app_requests", one, "a you".to_owned(), sample(1, 0.0, 0.0)),
                ("client_requests", one, "you".to_owned(), sample(1, 0.0, 0.0)),
                (
                    "requests",
                    one,
                    "a".to_owned(),
                    Sample { buckets: latencies::one(1.0), ..sample(1, 1.0, 1.0) }
                ),
                ("stream_lag", one, String::new(), sample(1, 2.5, 2.5)),
            ]
        );
        assert!(history.lock().take().is_empty());
    }

    #[test]
    fn labels_are_bounded() {
        let history = History::new(Clock::fixed(Timestamp(0)));
        for n in 0..2 * MAX_LABELS {
            history.record(Measure::ScriptRuns, &format!("script \0 {n}"), 1, 0.0);
        }
        let samples = history.lock().take();
        assert_eq!(samples.len(), MAX_LABELS + 1);
        let other = samples.iter().find(|sample| sample.2 == OTHER).unwrap();
        assert_eq!(other.3.count as usize, MAX_LABELS);
        assert!(samples.iter().all(|sample| !sample.2.contains('\0')));
    }

    #[test]
    fn labels_are_bounded_in_an_hour() {
        let clock = Clock::fixed(Timestamp(0));
        let history = History::new(clock.clone());
        let labels = |minute: i64, names: std::ops::Range<usize>| {
            clock.set(Timestamp(0).plus_seconds(60 * minute));
            names.for_each(|n| history.record(Measure::RecordsWritten, &format!("c{n}"), 1, 0.0));
            history.lock().take().len()
        };
        assert_eq!(labels(0, 0..MAX_LABELS), MAX_LABELS);
        assert_eq!(labels(59, 0..MAX_LABELS + 7), MAX_LABELS + 1, "the others of the hour share one");
        assert_eq!(labels(60, MAX_LABELS..MAX_LABELS + 7), 7, "another hour");
    }

    #[test]
    fn what_waits_for_the_store_is_bounded() {
        let history = History::new(Clock::fixed(Timestamp(0)));
        let sample = |n: usize| ("requests", Timestamp(n as i64), String::new(), Sample::default());
        history.lock().give_back((0..MAX_ENDED + 5).map(sample).collect());
        let kept = history.lock().take();
        assert_eq!((kept.len(), kept[0].1), (MAX_ENDED, Timestamp(5)), "the oldest are dropped");
    }

    #[test]
    fn what_could_not_be_stored_is_added_to_what_is_counted_later() {
        let history = History::new(Clock::fixed(Timestamp(0)));
        history.request("a", "me", Duration::from_millis(2), false);
        let failed = history.lock().take();
        history.lock().give_back(failed);
        history.request("a", "me", Duration::from_millis(3), false);
        let samples = history.lock().take();
        let mut both = Sample { count: 2, total: 5.0, max: 3.0, buckets: latencies::one(2.0) };
        both.add(Sample { buckets: latencies::one(3.0), ..Sample::default() });
        assert!(samples.contains(&("requests", Timestamp(0), "a".to_owned(), both)), "{samples:?}");
        assert_eq!(samples.len(), 3, "each row once");
    }
}
