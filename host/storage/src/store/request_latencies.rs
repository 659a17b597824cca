//! Stores how many calls of each method took how long, in steps, beside [`super::metric_history`].

use sqlx::Row;

use super::metric_resolution::Resolution;
use super::{Db, StoreError, on};
use belvedere_base::clock::Timestamp;

/// The columns `b0`, `b1`, … of a row.
pub const BUCKETS: usize = 15;

/// Calls by bucket within a step of a query.
#[derive(Clone, Debug, PartialEq)]
pub struct LatencyRow {
    pub at: Timestamp,
    pub label: String,
    /// The latency of the slowest call.
    pub max: f64,
    pub buckets: [i64; BUCKETS],
}

impl LatencyRow {
    /// Adds the calls of another row.
    pub fn add(&mut self, other: &Self) {
        self.max = self.max.max(other.max);
        for (sum, count) in self.buckets.iter_mut().zip(other.buckets) {
            *sum += count;
        }
    }
}

/// Joins a text for each bucket.
fn each(text: impl Fn(usize) -> String) -> String {
    (0..BUCKETS).map(text).collect::<Vec<_>>().join(", ")
}

fn merge(table: &str) -> String {
    let sums = each(|n| format!("b{n} = {table}.b{n} + excluded.b{n}"));
    format!(" ON CONFLICT (at, label) DO UPDATE SET {sums}")
}

/// Adds to the steps, from `[at, label, b0, …]` as JSON in $1.
pub(super) fn add_sqlite(table: &str) -> String {
    let (columns, values) = (each(|n| format!("b{n}")), each(|n| format!("value ->> {}", n + 2)));
    format!(
        "INSERT INTO {table} (at, label, {columns}) SELECT value ->> 0, value ->> 1, {values} \
         FROM json_each($1) WHERE true{}",
        merge(table)
    )
}

/// Adds to the steps, from arrays: $1 `at`, $2 `label`, $3 `b0`, ….
pub(super) fn add_postgres(table: &str) -> String {
    let (columns, arrays) = (each(|n| format!("b{n}")), each(|n| format!("${}::int[]", n + 3)));
    format!(
        "INSERT INTO {table} (at, label, {columns}) \
         SELECT * FROM UNNEST ($1::bigint[], $2::text[], {arrays}){}",
        merge(table)
    )
}

/// Calls by bucket from `from` until before `until`, in steps of `step` microseconds since 1970: the earliest first. `label`:
/// of this one only.
pub async fn read(
    db: &Db,
    resolution: Resolution,
    metric: &str,
    label: Option<&str>,
    (from, until): (Timestamp, Timestamp),
    step: i64,
) -> Result<Vec<LatencyRow>, StoreError> {
    let (history, latencies) = (resolution.history(), resolution.latencies());
    let sums = each(|n| format!("CAST(sum(l.b{n}) AS BIGINT)"));
    let sql = format!(
        "SELECT l.at / $4 * $4, l.label, max(h.max), {sums} FROM {latencies} l \
         JOIN {history} h ON h.metric = $1 AND h.at = l.at AND h.label = l.label \
         WHERE l.at >= $2 AND l.at < $3 AND (CAST($5 AS TEXT) IS NULL OR l.label = $5) GROUP BY 1, 2 ORDER BY 1, 2"
    );
    Ok(on!(db, reader, |pool| {
        let query =
            sqlx::query(sqlx::AssertSqlSafe(sql)).bind(metric).bind(from).bind(until).bind(step).bind(label);
        let rows = query.fetch_all(pool).await?;
        let read = rows.iter().map(|row| {
            let mut buckets = [0; BUCKETS];
            for (n, bucket) in buckets.iter_mut().enumerate() {
                *bucket = row.try_get(n + 3)?;
            }
            let (at, label, max) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
            Ok(LatencyRow { at, label, max, buckets })
        });
        read.collect::<Result<Vec<_>, sqlx::Error>>()?
    }))
}
