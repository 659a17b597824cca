//! The values that alerts compare.

use belvedere_base::clock::Timestamp;
use belvedere_storage::store::alerts::{AlertMetric, AlertRule};
use belvedere_storage::store::dead_letters::{self, DeadLetterFilter};
use belvedere_storage::store::{Db, StoreError, backfill, sizes};

use crate::history::{LastMinutes, Measure};

/// The minutes over which calls and runs are counted. Fewer would let a single call decide, more would report late.
pub const MINUTES: i64 = 5;

/// Seconds before the present within which a backfill must have been created for its failures to count.
const BACKFILL_SECONDS: i64 = 86_400;

/// Backfills whose failures are added, the newest first.
const MAX_BACKFILLS: u32 = 20;

/// The description of a metric.
#[derive(Clone, Copy, Debug)]
pub struct Measured {
    pub unit: &'static str,
    /// The kind of label that it may be limited to.
    pub by: Option<&'static str>,
    pub description: &'static str,
}

/// Describes a metric.
pub fn measured(metric: AlertMetric) -> Measured {
    let (unit, by, description) = match metric {
        AlertMetric::ErrorRate => (
            "percent",
            Some("method"),
            "Calls of the last five minutes that this server failed to answer (5xx). No value without calls.",
        ),
        AlertMetric::LatencyP99 => (
            "milliseconds",
            Some("method"),
            "The latency that 99 of 100 calls of the last five minutes did not exceed. No value without calls.",
        ),
        AlertMetric::Requests => {
            ("calls per minute", Some("method"), "XRPC calls, the mean of the last five minutes.")
        }
        AlertMetric::ClientRateLimited => (
            "calls per minute",
            Some("client"),
            "Calls that were refused because the budget was used up (429), the mean of the last five minutes.",
        ),
        AlertMetric::ScriptErrors => {
            ("runs per minute", Some("script"), "Failed runs of scripts, the mean of the last five minutes.")
        }
        AlertMetric::StreamLag => {
            ("seconds", None, "How far the index is behind the stream. No value while no stream is followed.")
        }
        AlertMetric::DeadLetters => ("letters", None, "Dead letters that wait for a decision."),
        AlertMetric::FailedRepos => (
            "repos",
            None,
            "Repos that could not be read by the backfills that were created in the last 24 hours.",
        ),
        AlertMetric::DatabaseBytes => ("bytes", None, "The size of the database."),
        AlertMetric::DiskFreeBytes => (
            "bytes",
            None,
            "The free space of the disk with the SQLite file. No value on PostgreSQL, whose disk is its server's.",
        ),
    };
    Measured { unit, by, description }
}

/// The value that an alert compares now; `None` when there is none.
///
/// # Errors
/// When the store fails.
pub async fn value(db: &Db, rule: &AlertRule, now: Timestamp) -> Result<Option<f64>, StoreError> {
    let last = LastMinutes::new(db, now, MINUTES, rule.label.as_deref());
    let per_minute = async |measure| {
        let count = last.sum(measure).await?.count;
        Ok::<_, StoreError>(Some(count as f64 * 60.0 / last.seconds()))
    };
    Ok(match rule.metric {
        AlertMetric::ErrorRate => {
            let calls = last.sum(Measure::Requests).await?.count;
            let errors = last.sum(Measure::RequestErrors).await?.count;
            (calls > 0).then(|| 100.0 * errors as f64 / calls as f64)
        }
        AlertMetric::LatencyP99 => last.latency(99).await?,
        AlertMetric::Requests => per_minute(Measure::Requests).await?,
        AlertMetric::ClientRateLimited => per_minute(Measure::ClientRateLimited).await?,
        AlertMetric::ScriptErrors => per_minute(Measure::ScriptErrors).await?,
        AlertMetric::StreamLag => last.newest_max(Measure::StreamLag).await?,
        AlertMetric::DeadLetters => {
            let waiting = DeadLetterFilter { resolved: Some(false), ..DeadLetterFilter::default() };
            Some(dead_letters::count(db, &waiting).await? as f64)
        }
        AlertMetric::FailedRepos => {
            let since = now.plus_seconds(-BACKFILL_SECONDS);
            let jobs = backfill::list_page(db, None, MAX_BACKFILLS).await?;
            let failed = jobs.iter().filter(|job| job.created_at >= since).filter_map(|job| job.failed_repos);
            Some(failed.sum::<i64>() as f64)
        }
        AlertMetric::DatabaseBytes => Some(sizes::total(db).await? as f64),
        AlertMetric::DiskFreeBytes => db.disk_space().await.map(|disk| disk.free as f64),
    })
}
