//! Stores how much the server did, in steps of five minutes.

use serde::Serialize;
use serde_json::Value;

use belvedere_base::clock::Timestamp;

use super::request_latencies::{self, BUCKETS};
use super::{Db, StoreError, on};

/// The measurements of one label within a step, or a part of it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sample {
    pub count: i64,
    /// The sum of the measured values.
    pub total: f64,
    pub max: f64,
    /// The measured values by bucket, of a measure that has percentiles.
    pub buckets: [i64; BUCKETS],
}

impl Sample {
    /// Adds another part of the same step.
    pub fn add(&mut self, other: Self) {
        self.count += other.count;
        for (sum, count) in self.buckets.iter_mut().zip(other.buckets) {
            *sum += count;
        }
        self.total += other.total;
        self.max = self.max.max(other.max);
    }
}

/// A sample with its metric, the time at which its step begins, and its label.
pub type NewSample = (&'static str, Timestamp, String, Sample);

/// The measurements of one label within a step of a query.
#[derive(Clone, Debug, PartialEq, sqlx::FromRow)]
pub struct StepRow {
    pub at: Timestamp,
    pub label: String,
    pub count: i64,
    pub total: f64,
    pub max: f64,
}

/// Adds samples to what is stored of the same steps, in one transaction.
pub async fn add(db: &Db, samples: &[NewSample]) -> Result<(), StoreError> {
    const MERGE: &str = " ON CONFLICT (metric, at, label) DO UPDATE SET count = metric_history.count + excluded.count, \
        total = metric_history.total + excluded.total, \
        max = CASE WHEN excluded.max > metric_history.max THEN excluded.max ELSE metric_history.max END";
    // All hosts lock rows in this order.
    let mut sorted: Vec<&NewSample> = samples.iter().collect();
    sorted.sort_by(|a, b| (a.0, a.1, &a.2).cmp(&(b.0, b.1, &b.2)));
    let spread: Vec<&NewSample> =
        sorted.iter().copied().filter(|row| row.3.buckets != [0; BUCKETS]).collect();
    match db {
        Db::Sqlite(db) => {
            let sql = format!(
                "INSERT INTO metric_history (metric, at, label, count, total, max) \
                 SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, CAST(value ->> 4 AS REAL), \
                     CAST(value ->> 5 AS REAL) FROM json_each($1) WHERE true{MERGE}"
            );
            let rows: Vec<_> = sorted
                .iter()
                .map(|(metric, at, label, s)| (metric, at.0, label, s.count, s.total, s.max))
                .collect();
            let mut tx = db.writer.begin().await?;
            sqlx::query(sqlx::AssertSqlSafe(sql)).bind(json(&rows)?).execute(&mut *tx).await?;
            if !spread.is_empty() {
                let rows: Vec<_> = spread
                    .iter()
                    .map(|(_, at, label, s)| {
                        let head = [Value::from(at.0), Value::from(label.as_str())];
                        head.into_iter().chain(s.buckets.map(Value::from)).collect::<Value>()
                    })
                    .collect();
                let sql = request_latencies::add_sqlite();
                sqlx::query(sqlx::AssertSqlSafe(sql)).bind(json(&rows)?).execute(&mut *tx).await?;
            }
            tx.commit().await?;
        }
        Db::Postgres(db) => {
            let sql = format!(
                "INSERT INTO metric_history (metric, at, label, count, total, max) SELECT * FROM UNNEST \
                 ($1::text[], $2::bigint[], $3::text[], $4::bigint[], $5::float8[], $6::float8[]){MERGE}"
            );
            let mut tx = db.writer().begin().await?;
            sqlx::query(sqlx::AssertSqlSafe(sql))
                .bind(sorted.iter().map(|row| row.0).collect::<Vec<_>>())
                .bind(sorted.iter().map(|row| row.1.0).collect::<Vec<_>>())
                .bind(sorted.iter().map(|row| row.2.as_str()).collect::<Vec<_>>())
                .bind(sorted.iter().map(|row| row.3.count).collect::<Vec<_>>())
                .bind(sorted.iter().map(|row| row.3.total).collect::<Vec<_>>())
                .bind(sorted.iter().map(|row| row.3.max).collect::<Vec<_>>())
                .execute(&mut *tx)
                .await?;
            if !spread.is_empty() {
                let mut query = sqlx::query(sqlx::AssertSqlSafe(request_latencies::add_postgres()))
                    .bind(spread.iter().map(|row| row.1.0).collect::<Vec<_>>())
                    .bind(spread.iter().map(|row| row.2.as_str()).collect::<Vec<_>>());
                for n in 0..BUCKETS {
                    let counts = spread.iter().map(|row| i32::try_from(row.3.buckets[n]).unwrap_or(i32::MAX));
                    query = query.bind(counts.collect::<Vec<_>>());
                }
                query.execute(&mut *tx).await?;
            }
            tx.commit().await?;
        }
    }
    Ok(())
}

fn json(rows: &impl Serialize) -> Result<String, StoreError> {
    serde_json::to_string(rows).map_err(|e| StoreError::Corrupt(e.to_string()))
}

/// The measurements from `from` until before `until`, in steps of `step` microseconds since 1970: the earliest first.
/// `label`: of this one only.
pub async fn read(
    db: &Db,
    metric: &str,
    label: Option<&str>,
    (from, until): (Timestamp, Timestamp),
    step: i64,
) -> Result<Vec<StepRow>, StoreError> {
    let sql = "SELECT at / $4 * $4 AS at, label, CAST(sum(count) AS BIGINT) AS count, sum(total) AS total, \
                   max(max) AS max FROM metric_history \
               WHERE metric = $1 AND at >= $2 AND at < $3 AND (CAST($5 AS TEXT) IS NULL OR label = $5) \
               GROUP BY 1, 2 ORDER BY 1, 2";
    Ok(on!(db, reader, |pool| {
        sqlx::query_as(sql).bind(metric).bind(from).bind(until).bind(step).bind(label).fetch_all(pool).await
    })?)
}

/// Removes steps that begin before `before`, at most `max` rows of each table. Returns how many.
pub async fn delete_before(db: &Db, before: Timestamp, max: u32) -> Result<u64, StoreError> {
    let history = "DELETE FROM metric_history WHERE (metric, at, label) IN \
                   (SELECT metric, at, label FROM metric_history WHERE at < $1 LIMIT $2)";
    let latencies = "DELETE FROM request_latencies WHERE (at, label) IN \
                     (SELECT at, label FROM request_latencies WHERE at < $1 LIMIT $2)";
    let mut removed = 0;
    for sql in [history, latencies] {
        removed += on!(db, writer, |pool| {
            sqlx::query(sql).bind(before).bind(i64::from(max)).execute(pool).await?.rows_affected()
        });
    }
    Ok(removed)
}
