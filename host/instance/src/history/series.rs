//! Reads the history of a metric as series over common times.

use std::collections::BTreeMap;

use super::latencies::percentile;
use super::recorder::OTHER;
use super::{Metric, Steps};
use belvedere_base::clock::Timestamp;
use belvedere_storage::store::metric_history::{self, StepRow};
use belvedere_storage::store::request_latencies::{self, LatencyRow};
use belvedere_storage::store::{Db, StoreError};

#[derive(Clone, Copy, Debug)]
pub struct Query<'a> {
    pub metric: Metric,
    pub steps: Steps,
    /// Series beyond it become one, if they can be added.
    pub top: usize,
    /// Only this one.
    pub label: Option<&'a str>,
    /// One series of all labels together.
    pub is_combined: bool,
    /// With the values of the period before.
    pub is_compared: bool,
}

/// The series of a metric.
#[derive(Clone, Debug, PartialEq)]
pub struct Read {
    pub times: Vec<Timestamp>,
    /// The largest totals first.
    pub series: Vec<Series>,
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
    /// Those of the period before, if it was requested: as many.
    pub previous: Option<Vec<Option<f64>>>,
}

/// One for each step.
type Values = Vec<Option<f64>>;

/// The value of a label in a step.
type Point = (Timestamp, f64, String);

impl Query<'_> {
    /// Reads the series, and their values in the period before.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn read(self, db: &Db) -> Result<Read, StoreError> {
        let times = self.steps.times();
        let from = times.first().copied().unwrap_or(self.steps.from);
        let points = self.points(db, (from, self.steps.until)).await?;
        let values = by_label(&times, &points);
        if !self.is_compared {
            return Ok(Read { series: self.series(values), times });
        }
        let length = self.steps.length();
        let back = |at: Timestamp| at.plus_seconds(-length);
        let points = self.points(db, (back(from), back(self.steps.until))).await?;
        let before = by_label(&times.iter().copied().map(back).collect::<Vec<_>>(), &points);
        Ok(Read { series: self.compared(values, before, times.len()), times })
    }

    async fn points(self, db: &Db, period: (Timestamp, Timestamp)) -> Result<Vec<Point>, StoreError> {
        let (name, resolution) = (self.metric.measure.as_str(), self.steps.resolution);
        let step = self.steps.step * 1_000_000;
        let label = |label: String| if self.is_combined { String::new() } else { label };
        if let Some(percent) = self.metric.percent() {
            let mut rows = request_latencies::read(db, resolution, name, self.label, period, step).await?;
            if self.is_combined {
                add_steps(&mut rows, |row| row.at, LatencyRow::add);
            }
            let point = |row: LatencyRow| (row.at, percentile(&row, percent), label(row.label));
            return Ok(rows.into_iter().map(point).collect());
        }
        let mut rows = metric_history::read(db, resolution, name, self.label, period, step).await?;
        if self.is_combined {
            add_steps(&mut rows, |row| row.at, StepRow::add);
        }
        let point = |row: StepRow| (row.at, self.metric.value_of(&row), label(row.label));
        Ok(rows.into_iter().map(point).collect())
    }

    fn series(self, mut by_label: BTreeMap<String, Values>) -> Vec<Series> {
        let mut others = by_label.remove(OTHER);
        let mut series: Vec<Series> =
            by_label.into_iter().map(|(label, values)| self.one(label, false, values)).collect();
        series.sort_by(|a, b| b.total.total_cmp(&a.total).then_with(|| a.label.cmp(&b.label)));
        for surplus in series.split_off(self.top.min(series.len())) {
            self.merge(&mut others, surplus.values);
        }
        series.extend(others.map(|values| self.one(OTHER.to_owned(), true, values)));
        series
    }

    /// The series with their values in the period before. A label of that period alone has a series too, without values.
    fn compared(
        self,
        mut values: BTreeMap<String, Values>,
        mut before: BTreeMap<String, Values>,
        steps: usize,
    ) -> Vec<Series> {
        for label in before.keys() {
            values.entry(label.clone()).or_insert_with(|| vec![None; steps]);
        }
        let mut series = self.series(values);
        for one in series.iter_mut().filter(|one| !one.is_other) {
            one.previous = Some(before.remove(&one.label).unwrap_or_else(|| vec![None; steps]));
        }
        if let Some(other) = series.iter_mut().find(|one| one.is_other) {
            let mut sum = None;
            for values in before.into_values() {
                self.merge(&mut sum, values);
            }
            other.previous = Some(sum.unwrap_or_else(|| vec![None; steps]));
        }
        series
    }

    /// Adds values to a sum, or the larger ones of a metric whose values can't be added.
    fn merge(self, sum: &mut Option<Values>, values: Values) {
        let Some(sum) = sum else {
            *sum = Some(values);
            return;
        };
        for (sum, value) in sum.iter_mut().zip(values) {
            *sum = match (*sum, value) {
                (Some(a), Some(b)) if self.metric.is_sum() => Some(a + b),
                (Some(a), Some(b)) => Some(a.max(b)),
                (a, b) => a.or(b),
            };
        }
    }

    fn one(self, label: String, is_other: bool, values: Values) -> Series {
        let given = values.iter().flatten();
        let total = if self.metric.is_sum() { given.sum() } else { given.copied().fold(0.0, f64::max) };
        Series { label, is_other, total, values, previous: None }
    }
}

/// Adds the rows of each step to its first one. They are in the order of steps.
fn add_steps<R>(rows: &mut Vec<R>, at: impl Fn(&R) -> Timestamp, add: impl Fn(&mut R, &R)) {
    rows.dedup_by(|row, sum| {
        let is_same = at(row) == at(sum);
        if is_same {
            add(sum, row);
        }
        is_same
    });
}

fn by_label(times: &[Timestamp], points: &[Point]) -> BTreeMap<String, Values> {
    let mut by_label = BTreeMap::new();
    for (at, value, label) in points {
        let values: &mut Values = by_label.entry(label.clone()).or_insert_with(|| vec![None; times.len()]);
        if let Ok(index) = times.binary_search(at) {
            values[index] = Some(*value);
        }
    }
    by_label
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::Period;

    fn at(step: i64) -> Timestamp {
        Timestamp(0).plus_seconds(step * 60)
    }

    fn query(name: &str) -> Query<'static> {
        let steps = Steps::new(Period::default(), None, at(10_000)).unwrap();
        Query {
            metric: Metric::named(name).unwrap(),
            steps,
            top: 1,
            label: None,
            is_combined: false,
            is_compared: false,
        }
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
            let query = query(name);
            query.series(by_label(&times, &points))
        };
        let series = |label: &str, is_other, total, values: [Option<f64>; 3]| Series {
            label: label.to_owned(),
            is_other,
            total,
            values: values.to_vec(),
            previous: None,
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

    #[test]
    fn the_period_before_has_the_same_series() {
        let times = [at(0), at(1)];
        let point = |step, label: &str, value| (at(step), value, label.to_owned());
        let query = query("requests");
        let now = [point(0, "a", 5.0), point(0, "b", 1.0), point(1, "c", 1.0)];
        let before = [point(0, "b", 2.0), point(1, "a", 3.0), point(1, "d", 4.0), point(1, "(other)", 1.0)];
        let series = query.compared(by_label(&times, &now), by_label(&times, &before), 2);
        let previous: Vec<_> =
            series.iter().map(|one| (&*one.label, one.previous.clone().unwrap())).collect();
        assert_eq!(
            previous,
            [("a", vec![None, Some(3.0)]), (OTHER, vec![Some(2.0), Some(5.0)])],
            "labels without a series are among the others"
        );
    }
}
