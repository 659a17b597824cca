//! Stores how much the server did, in steps of three lengths: a minute, five minutes and an hour.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;
use sqlx::{AssertSqlSafe, query, query_as, query_scalar};

use belvedere_base::clock::Timestamp;

use super::metric_resolution::Resolution;
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

impl StepRow {
    /// Adds the measurements of another row.
    pub fn add(&mut self, other: &Self) {
        self.count += other.count;
        self.total += other.total;
        self.max = self.max.max(other.max);
    }
}

/// The samples of a table, in the order in which all hosts lock its rows.
type Merged<'a> = BTreeMap<(&'static str, Timestamp, &'a str), Sample>;

fn merged(samples: &[NewSample], resolution: Resolution) -> Merged<'_> {
    let mut merged = Merged::new();
    for (metric, at, label, sample) in samples {
        merged.entry((metric, resolution.step_of(*at), label)).or_default().add(*sample);
    }
    merged
}

/// Adds samples to what is stored of the same steps, in one transaction.
pub async fn add(db: &Db, samples: &[NewSample]) -> Result<(), StoreError> {
    match db {
        Db::Sqlite(db) => {
            let mut tx = db.writer.begin().await?;
            for resolution in Resolution::ALL {
                add_sqlite(&mut tx, resolution, &merged(samples, resolution)).await?;
            }
            tx.commit().await?;
        }
        Db::Postgres(db) => {
            let mut tx = db.writer().begin().await?;
            for resolution in Resolution::ALL {
                add_postgres(&mut tx, resolution, &merged(samples, resolution)).await?;
            }
            tx.commit().await?;
        }
    }
    Ok(())
}

/// Adds to the rows that exist.
fn merge(table: &str) -> String {
    format!(
        " ON CONFLICT (metric, at, label) DO UPDATE SET count = {table}.count + excluded.count, \
         total = {table}.total + excluded.total, \
         max = CASE WHEN excluded.max > {table}.max THEN excluded.max ELSE {table}.max END"
    )
}

async fn add_sqlite(
    tx: &mut sqlx::SqliteConnection,
    resolution: Resolution,
    samples: &Merged<'_>,
) -> Result<(), StoreError> {
    let (table, latencies) = (resolution.history(), resolution.latencies());
    let sql = format!(
        "INSERT INTO {table} (metric, at, label, count, total, max) \
         SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, CAST(value ->> 4 AS REAL), \
             CAST(value ->> 5 AS REAL) FROM json_each($1) WHERE true{}",
        merge(table)
    );
    let rows: Vec<_> = samples
        .iter()
        .map(|((metric, at, label), s)| (metric, at.0, label, s.count, s.total, s.max))
        .collect();
    query(AssertSqlSafe(sql)).bind(json(&rows)?).execute(&mut *tx).await?;
    let spread: Vec<Value> = spread(samples)
        .map(|(at, label, buckets)| {
            [Value::from(at.0), Value::from(label)].into_iter().chain(buckets.map(Value::from)).collect()
        })
        .collect();
    if !spread.is_empty() {
        let sql = request_latencies::add_sqlite(latencies);
        query(AssertSqlSafe(sql)).bind(json(&spread)?).execute(&mut *tx).await?;
    }
    Ok(())
}

async fn add_postgres(
    tx: &mut sqlx::PgConnection,
    resolution: Resolution,
    samples: &Merged<'_>,
) -> Result<(), StoreError> {
    let (table, latencies) = (resolution.history(), resolution.latencies());
    let sql = format!(
        "INSERT INTO {table} (metric, at, label, count, total, max) SELECT * FROM UNNEST \
         ($1::text[], $2::bigint[], $3::text[], $4::bigint[], $5::float8[], $6::float8[]){}",
        merge(table)
    );
    query(AssertSqlSafe(sql))
        .bind(samples.keys().map(|(metric, ..)| *metric).collect::<Vec<_>>())
        .bind(samples.keys().map(|(_, at, _)| at.0).collect::<Vec<_>>())
        .bind(samples.keys().map(|(.., label)| *label).collect::<Vec<_>>())
        .bind(samples.values().map(|sample| sample.count).collect::<Vec<_>>())
        .bind(samples.values().map(|sample| sample.total).collect::<Vec<_>>())
        .bind(samples.values().map(|sample| sample.max).collect::<Vec<_>>())
        .execute(&mut *tx)
        .await?;
    let spread: Vec<_> = spread(samples).collect();
    if !spread.is_empty() {
        let mut query = query(AssertSqlSafe(request_latencies::add_postgres(latencies)))
            .bind(spread.iter().map(|(at, ..)| at.0).collect::<Vec<_>>())
            .bind(spread.iter().map(|(_, label, _)| *label).collect::<Vec<_>>());
        for n in 0..BUCKETS {
            let counts = spread.iter().map(|(.., buckets)| i32::try_from(buckets[n]).unwrap_or(i32::MAX));
            query = query.bind(counts.collect::<Vec<_>>());
        }
        query.execute(&mut *tx).await?;
    }
    Ok(())
}

/// Step, label and buckets of the samples that have a distribution.
fn spread<'a>(samples: &'a Merged<'_>) -> impl Iterator<Item = (Timestamp, &'a str, [i64; BUCKETS])> {
    let all = samples.iter().map(|((_, at, label), sample)| (*at, *label, sample.buckets));
    all.filter(|(.., buckets)| *buckets != [0; BUCKETS])
}

fn json(rows: &impl Serialize) -> Result<String, StoreError> {
    serde_json::to_string(rows).map_err(|e| StoreError::Corrupt(e.to_string()))
}

/// The measurements from `from` until before `until`, in steps of `step` microseconds since 1970: the earliest first.
/// `label`: of this one only.
pub async fn read(
    db: &Db,
    resolution: Resolution,
    metric: &str,
    label: Option<&str>,
    (from, until): (Timestamp, Timestamp),
    step: i64,
) -> Result<Vec<StepRow>, StoreError> {
    let sql = format!(
        "SELECT at / $4 * $4 AS at, label, CAST(sum(count) AS BIGINT) AS count, sum(total) AS total, \
             max(max) AS max FROM {} \
         WHERE metric = $1 AND at >= $2 AND at < $3 AND (CAST($5 AS TEXT) IS NULL OR label = $5) \
         GROUP BY 1, 2 ORDER BY 1, 2",
        resolution.history()
    );
    Ok(on!(db, reader, |pool| {
        let query = query_as(AssertSqlSafe(sql)).bind(metric).bind(from).bind(until).bind(step).bind(label);
        query.fetch_all(pool).await
    })?)
}

/// The time at which the history begins, as exactly as the stored steps say; `None` without any.
pub async fn begin(db: &Db) -> Result<Option<Timestamp>, StoreError> {
    let mut begins = Vec::with_capacity(Resolution::ALL.len());
    for resolution in Resolution::ALL {
        let sql = format!("SELECT min(at) FROM {}", resolution.history());
        let min: Option<Timestamp> =
            on!(db, reader, |pool| query_scalar(AssertSqlSafe(sql)).fetch_one(pool).await)?;
        begins.extend(min);
    }
    // The steps of one length begin at the retention period of that length, unless the history is younger.
    let earliest = begins.iter().min().map(|at| at.plus_seconds(Resolution::Hour.seconds()));
    Ok(begins.into_iter().find(|at| earliest.is_some_and(|end| *at < end)))
}

/// Removes steps that begin before `before`, at most `max` rows of each table. Returns how many.
pub async fn delete_before(
    db: &Db,
    resolution: Resolution,
    before: Timestamp,
    max: u32,
) -> Result<u64, StoreError> {
    let (history, latencies) = (resolution.history(), resolution.latencies());
    let history = format!(
        "DELETE FROM {history} WHERE (metric, at, label) IN \
         (SELECT metric, at, label FROM {history} WHERE at < $1 LIMIT $2)"
    );
    let latencies = format!(
        "DELETE FROM {latencies} WHERE (at, label) IN \
         (SELECT at, label FROM {latencies} WHERE at < $1 LIMIT $2)"
    );
    let mut removed = 0;
    for sql in [history, latencies] {
        removed += on!(db, writer, |pool| {
            let query = query(AssertSqlSafe(sql)).bind(before).bind(i64::from(max));
            query.execute(pool).await?.rows_affected()
        });
    }
    Ok(removed)
}
