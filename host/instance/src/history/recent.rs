//! The rates of the last minutes, of all hosts together.

use super::{LastMinutes, Measure};
use belvedere_base::clock::Timestamp;
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
    /// The rates of the last `minutes` and of the step that has begun.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn read(db: &Db, now: Timestamp, minutes: i64) -> Result<Self, StoreError> {
        let last = LastMinutes::new(db, now, minutes, None);
        let length = last.seconds();
        let (events, requests) = (last.sum(Measure::StreamEvents).await?, last.sum(Measure::Requests).await?);
        let errors = last.sum(Measure::RequestErrors).await?;
        Ok(Self {
            events_per_second: events.count as f64 / length,
            requests_per_second: requests.count as f64 / length,
            errors_per_second: errors.count as f64 / length,
            mean_ms: (requests.count > 0).then(|| requests.total / requests.count as f64),
        })
    }
}
