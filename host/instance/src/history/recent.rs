//! The rates of the last minutes, of all hosts together.

use super::recorder::step_of;
use super::{Measure, STEP_SECONDS};
use belvedere_base::clock::Timestamp;
use belvedere_storage::store::metric_history::{self, Sample};
use belvedere_storage::store::{Db, StoreError};

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Recent {
    pub events_per_second: f64,
    pub requests_per_second: f64,
    pub errors_per_second: f64,
    /// The mean time of a request; `None` without requests.
    pub mean_ms: Option<f64>,
}

impl Recent {
    /// The rates of the last `seconds` and of the step that has begun.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn read(db: &Db, now: Timestamp, seconds: i64) -> Result<Self, StoreError> {
        let from = step_of(now.plus_seconds(-seconds));
        let until = now.plus_seconds(STEP_SECONDS);
        let length = (now.0 - from.0).max(1) as f64 / 1e6;
        let sum = async |measure: Measure| {
            let step = STEP_SECONDS * 1_000_000;
            let rows = metric_history::read(db, measure.as_str(), None, (from, until), step).await?;
            let mut sum = Sample::default();
            for row in rows {
                sum.add(Sample { count: row.count, total: row.total, max: row.max, ..Sample::default() });
            }
            Ok::<_, StoreError>(sum)
        };
        let (events, requests) = (sum(Measure::StreamEvents).await?, sum(Measure::Requests).await?);
        let errors = sum(Measure::RequestErrors).await?;
        Ok(Self {
            events_per_second: events.count as f64 / length,
            requests_per_second: requests.count as f64 / length,
            errors_per_second: errors.count as f64 / length,
            mean_ms: (requests.count > 0).then(|| requests.total / requests.count as f64),
        })
    }
}
