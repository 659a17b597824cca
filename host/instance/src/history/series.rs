//! Reads the history of a metric as series over common times.

use std::collections::BTreeMap;

use super::Metric;
use super::latencies::percentile;
use super::recorder::{KEPT_SECONDS, OTHER, STEP_SECONDS, step_of};
use belvedere_base::clock::Timestamp;
use belvedere_storage::store::{Db, StoreError, metric_history, request_latencies};

/// Steps of an answer by default, at most: about as many as a chart has places.
const DEFAULT_STEPS: i64 = 300;

/// Steps of an answer, at most: a week of the smallest.
const MAX_STEPS: i64 = KEPT_SECONDS / STEP_SECONDS + 1;

/// A period and its steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Steps {
    pub from: Timestamp,
    pub until: Timestamp,
    /// Seconds.
    pub step: i64,
}

/// The reason why a period is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidSteps {
    #[error("from must be before until")]
    Order,
    #[error("step must be a multiple of {STEP_SECONDS} seconds")]
    Step,
    #[error("at most {MAX_STEPS} steps: choose a longer step, or a shorter period")]
    TooMany,
}

impl Steps {
    /// The steps from `from`, by default a day before `until`, which is now by default.
    ///
    /// # Errors
    /// When they can't be read.
    pub fn new(
        from: Option<Timestamp>,
        until: Option<Timestamp>,
        step: Option<i64>,
        now: Timestamp,
    ) -> Result<Self, InvalidSteps> {
        let until = until.unwrap_or(now);
        let from = from.unwrap_or(until.plus_seconds(-86_400));
        // Older steps are not kept.
        let from = from.max(now.plus_seconds(-KEPT_SECONDS - STEP_SECONDS));
        if from >= until {
            return Err(InvalidSteps::Order);
        }
        let seconds = until.as_seconds().saturating_sub(from.as_seconds());
        let smallest = (seconds / (DEFAULT_STEPS * STEP_SECONDS) + 1).saturating_mul(STEP_SECONDS);
        let step = step.unwrap_or(smallest);
        if step <= 0 || step % STEP_SECONDS != 0 {
            return Err(InvalidSteps::Step);
        }
        if seconds / step > MAX_STEPS {
            return Err(InvalidSteps::TooMany);
        }
        Ok(Self { from, until, step })
    }

    /// The time at which each step begins.
    fn times(self) -> Vec<Timestamp> {
        let length = self.step * 1_000_000;
        let first = step_of(self.from).0.div_euclid(length) * length;
        (first..self.until.0).step_by(length as usize).map(Timestamp).collect()
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Query<'a> {
    pub metric: Metric,
    pub steps: Steps,
    /// Series beyond it become one, if they can be added.
    pub top: usize,
    /// Only this one.
    pub label: Option<&'a str>,
}

/// A series.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    pub label: String,
    /// The sum of several.
    pub is_other: bool,
    /// The sum of all values; the largest value of a metric whose values can't be added.
    pub total: f64,
    /// One for each time.
    pub values: Vec<Option<f64>>,
}

/// The value of a label in a step.
type Point = (Timestamp, f64, String);

impl Query<'_> {
    /// The times, and the series with the largest totals first.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn read(self, db: &Db) -> Result<(Vec<Timestamp>, Vec<Series>), StoreError> {
        let times = self.steps.times();
        let from = times.first().copied().unwrap_or(self.steps.from);
        let step = self.steps.step * 1_000_000;
        let period = (from, self.steps.until);
        let name = self.metric.measure.as_str();
        let points: Vec<Point> = if let Some(percent) = self.metric.percent() {
            let rows = request_latencies::read(db, name, self.label, period, step).await?;
            rows.into_iter().map(|row| (row.at, percentile(&row, percent), row.label)).collect()
        } else {
            let rows = metric_history::read(db, name, self.label, period, step).await?;
            rows.into_iter().map(|row| (row.at, self.metric.value_of(&row), row.label)).collect()
        };
        let series = self.series(&times, &points);
        Ok((times, series))
    }

    fn series(self, times: &[Timestamp], points: &[Point]) -> Vec<Series> {
        let mut by_label: BTreeMap<&str, Vec<Option<f64>>> = BTreeMap::new();
        for (at, value, label) in points {
            let values = by_label.entry(label).or_insert_with(|| vec![None; times.len()]);
            if let Ok(index) = times.binary_search(at) {
                values[index] = Some(*value);
            }
        }
        let mut others = by_label.remove(OTHER);
        let mut series: Vec<Series> =
            by_label.into_iter().map(|(label, values)| self.one(label, false, values)).collect();
        series.sort_by(|a, b| b.total.total_cmp(&a.total).then_with(|| a.label.cmp(&b.label)));
        for surplus in series.split_off(self.top.min(series.len())) {
            let sum = others.get_or_insert_with(|| vec![None; times.len()]);
            for (sum, value) in sum.iter_mut().zip(surplus.values) {
                *sum = match (*sum, value) {
                    (Some(a), Some(b)) if self.metric.is_sum() => Some(a + b),
                    (Some(a), Some(b)) => Some(a.max(b)),
                    (a, b) => a.or(b),
                };
            }
        }
        series.extend(others.map(|values| self.one(OTHER, true, values)));
        series
    }

    fn one(self, label: &str, is_other: bool, values: Vec<Option<f64>>) -> Series {
        let given = values.iter().flatten();
        let total = if self.metric.is_sum() { given.sum() } else { given.copied().fold(0.0, f64::max) };
        Series { label: label.to_owned(), is_other, total, values }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(step: i64) -> Timestamp {
        Timestamp(0).plus_seconds(step * STEP_SECONDS)
    }

    #[test]
    fn a_period_has_defaults_and_bounds() {
        let now = at(1_000_000).plus_seconds(7);
        let new = |from, until, step| Steps::new(from, until, step, now);
        let day = new(None, None, None).unwrap();
        assert_eq!((day.step, day.times().len()), (STEP_SECONDS, 289), "the last step has just begun");
        assert_eq!(day.times().last(), Some(&at(1_000_000)));
        let week = new(Some(Timestamp(0)), None, None).unwrap();
        assert_eq!(week.step, 7 * STEP_SECONDS, "what is older is not kept");
        let all = new(Some(Timestamp(0)), None, Some(STEP_SECONDS)).unwrap();
        assert_eq!(all.times().len() as i64, MAX_STEPS + 1);
        assert_eq!(new(Some(now), Some(now), None), Err(InvalidSteps::Order));
        for step in [0, -300, 301, i64::MIN, i64::MAX] {
            assert_eq!(new(None, None, Some(step)), Err(InvalidSteps::Step), "{step}");
        }
        let later = now.plus_seconds(KEPT_SECONDS);
        assert_eq!(new(Some(Timestamp(0)), Some(later), Some(STEP_SECONDS)), Err(InvalidSteps::TooMany));
        let far = new(Some(Timestamp(i64::MIN)), Some(Timestamp(i64::MAX)), None).unwrap();
        assert!(far.times().len() as i64 <= DEFAULT_STEPS + 1);
    }

    #[test]
    fn the_largest_series_are_listed_and_the_others_are_one() {
        let times = [at(0), at(1), at(2)];
        let point = |step, label: &str, value| (at(step), value, label.to_owned());
        let points = [
            point(0, "(other)", 1.0),
            point(0, "a", 5.0),
            point(0, "b", 1.0),
            point(0, "c", 2.0),
            point(2, "a", 5.0),
            point(2, "b", 20.0),
            point(2, "c", 3.0),
        ];
        let of = |name| {
            let steps = Steps { from: at(0), until: at(3), step: STEP_SECONDS };
            Query { metric: Metric::named(name).unwrap(), steps, top: 1, label: None }.series(&times, &points)
        };
        let series = |label: &str, is_other, total, values: [Option<f64>; 3]| Series {
            label: label.to_owned(),
            is_other,
            total,
            values: values.to_vec(),
        };
        assert_eq!(
            of("requests"),
            [
                series("b", false, 21.0, [Some(1.0), None, Some(20.0)]),
                series(OTHER, true, 16.0, [Some(8.0), None, Some(8.0)]),
            ]
        );
        assert_eq!(
            of("request_max_ms"),
            [
                series("b", false, 20.0, [Some(1.0), None, Some(20.0)]),
                series(OTHER, true, 5.0, [Some(5.0), None, Some(5.0)]),
            ]
        );
    }
}
