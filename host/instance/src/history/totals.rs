//! Reads the sums of a measure over a whole period, by label.

use std::collections::HashMap;

use super::Measure;
use belvedere_base::clock::Timestamp;
use belvedere_storage::store::metric_resolution::Resolution;
use belvedere_storage::store::{Db, StoreError, metric_history};

/// The sum of a label.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Total {
    pub count: u64,
    /// The sum of the measured values.
    pub value: f64,
}

impl Total {
    /// The mean of the measured values; `None` if there are none.
    pub fn mean(self) -> Option<f64> {
        (self.count > 0).then(|| self.value / self.count as f64)
    }
}

/// The sums of the steps that begin within a period, by label. Reads all rows of the measure in it.
///
/// # Errors
/// When the store fails.
pub async fn totals(
    db: &Db,
    measure: Measure,
    period: (Timestamp, Timestamp),
) -> Result<HashMap<String, Total>, StoreError> {
    // All times since 1970 are in one step of this length.
    let rows =
        metric_history::read(db, Resolution::FiveMinutes, measure.as_str(), None, period, i64::MAX).await?;
    let total = |count: i64, value| Total { count: count.try_into().unwrap_or(0), value };
    Ok(rows.into_iter().map(|row| (row.label, total(row.count, row.total))).collect())
}
