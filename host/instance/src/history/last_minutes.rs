//! The measurements of the last minutes, of all hosts together.

use super::Measure;
use super::latencies::percentile;
use belvedere_base::clock::Timestamp;
use belvedere_storage::store::metric_history::{self, Sample, StepRow};
use belvedere_storage::store::metric_resolution::Resolution::Minute;
use belvedere_storage::store::request_latencies::{self, LatencyRow};
use belvedere_storage::store::{Db, StoreError};

/// The length of a step in microseconds.
const STEP: i64 = Minute.seconds() * 1_000_000;

/// Reads the steps of the last minutes, and the one that has begun.
#[derive(Clone, Copy, Debug)]
pub struct LastMinutes<'a> {
    db: &'a Db,
    now: Timestamp,
    from: Timestamp,
    /// `None`: of all labels.
    label: Option<&'a str>,
}

impl<'a> LastMinutes<'a> {
    pub fn new(db: &'a Db, now: Timestamp, minutes: i64, label: Option<&'a str>) -> Self {
        Self { db, now, from: Minute.step_of(now.plus_seconds(-60 * minutes)), label }
    }

    /// The length of the period in seconds.
    pub fn seconds(self) -> f64 {
        (self.now.0 - self.from.0).max(1) as f64 / 1e6
    }

    /// # Errors
    /// When the store fails.
    pub async fn sum(self, measure: Measure) -> Result<Sample, StoreError> {
        let mut sum = Sample::default();
        for StepRow { count, total, max, .. } in self.rows(measure).await? {
            sum.add(Sample { count, total, max, ..Sample::default() });
        }
        Ok(sum)
    }

    /// The largest value of the newest step with a measurement.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn newest_max(self, measure: Measure) -> Result<Option<f64>, StoreError> {
        let rows = self.rows(measure).await?;
        let newest = rows.last().map(|row| row.at);
        Ok(rows.into_iter().filter(|row| Some(row.at) == newest).map(|row| row.max).reduce(f64::max))
    }

    /// The latency in milliseconds that `percent` of the calls did not exceed; `None` without calls.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn latency(self, percent: u8) -> Result<Option<f64>, StoreError> {
        let (period, name) = (self.period(), Measure::Requests.as_str());
        let rows = request_latencies::read(self.db, Minute, name, self.label, period, STEP).await?;
        let merged = rows.into_iter().reduce(|mut sum: LatencyRow, row| {
            sum.add(&row);
            sum
        });
        Ok(merged.map(|row| percentile(&row, percent)))
    }

    fn period(self) -> (Timestamp, Timestamp) {
        (self.from, self.now.plus_seconds(Minute.seconds()))
    }

    async fn rows(self, measure: Measure) -> Result<Vec<StepRow>, StoreError> {
        metric_history::read(self.db, Minute, measure.as_str(), self.label, self.period(), STEP).await
    }
}
