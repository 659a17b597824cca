//! `/admin/metrics`: the history of metrics.

use std::collections::HashMap;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::access::Admin;
use crate::api::answer::{Json, JsonResult};
use crate::api::input::WithQuery;
use crate::api::paging;
use crate::app::App;
use belvedere_base::clock::Timestamp;
use belvedere_instance::history::{KEPT_SECONDS, Metric, Query, STEP_SECONDS, Series, Steps};
use belvedere_storage::store::api_clients;
use belvedere_web::http::{Error, Request};

/// Series of an answer, at most: more lines in a chart can't be distinguished.
const MAX_SERIES: usize = 50;

const DEFAULT_SERIES: usize = 10;

#[derive(Debug, Serialize, JsonSchema)]
pub struct MetricNames {
    metrics: Vec<MetricInfo>,
    /// The shortest step, in seconds.
    step: i64,
    kept_days: i64,
}

#[derive(Debug, Serialize, JsonSchema)]
struct MetricInfo {
    metric: &'static str,
    unit: &'static str,
    by: Option<&'static str>,
    description: &'static str,
}

impl From<Metric> for MetricInfo {
    fn from(metric: Metric) -> Self {
        let Metric { name, unit, by, description, .. } = metric;
        Self { metric: name, unit, by, description }
    }
}

/// `GET /admin/metrics/names`: the metrics that have a history.
pub async fn names(_app: Arc<App>, _admin: Admin, _request: Request) -> JsonResult<MetricNames> {
    let metrics = Metric::ALL.into_iter().map(MetricInfo::from).collect();
    let answer = MetricNames { metrics, step: STEP_SECONDS, kept_days: KEPT_SECONDS / 86_400 };
    Ok(Json(answer))
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct MetricHistory {
    metric: &'static str,
    unit: &'static str,
    by: Option<&'static str>,
    step: i64,
    from: Timestamp,
    until: Timestamp,
    /// Seconds since 1970 at which each step begins.
    times: Vec<i64>,
    series: Vec<SeriesView>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Series")]
struct SeriesView {
    /// The name of the method or script, or the id of the client. Empty for a metric that has one series.
    label: String,
    /// The name of the API client whose id is the label.
    name: Option<String>,
    /// The sum of the series that are not listed.
    is_other: bool,
    /// The sum of a counter's values; of other metrics the largest value.
    total: f64,
    /// One for each of `times`. Null: nothing was measured.
    values: Vec<Option<f64>>,
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct MetricQuery {
    #[schemars(required)]
    metric: Option<String>,
    /// A day before `until` if absent.
    #[schemars(with = "Option<Timestamp>")]
    from: Option<String>,
    /// Now if absent.
    #[schemars(with = "Option<Timestamp>")]
    until: Option<String>,
    /// Seconds, a multiple of 300.
    #[schemars(with = "Option<u32>")]
    step: Option<String>,
    /// Series, 1 to 50. 10 if absent.
    #[schemars(with = "Option<u32>")]
    top: Option<String>,
    /// Only this series.
    label: Option<String>,
}

/// `GET /admin/metrics`: the history of one metric, of all hosts. It includes the latest counts of this host.
pub async fn get(app: Arc<App>, _admin: Admin, request: WithQuery<MetricQuery>) -> JsonResult<MetricHistory> {
    let parameters = request.parameters()?;
    let name = paging::required("metric", parameters.metric.clone())?;
    let metric = Metric::named(&name).ok_or_else(|| {
        let names: Vec<&str> = Metric::ALL.iter().map(|metric| metric.name).collect();
        Error::bad_request(format!("metric must be one of {}", names.join(", ")))
    })?;
    let steps = steps(&app, &parameters)?;
    let top = match number("top", parameters.top.as_deref())? {
        None => DEFAULT_SERIES,
        Some(top) => usize::try_from(top)
            .ok()
            .filter(|top| (1..=MAX_SERIES).contains(top))
            .ok_or_else(|| Error::bad_request(format!("top must be a number from 1 to {MAX_SERIES}")))?,
    };
    let label = parameters.label;
    app.flush_history().await?;
    let query = Query { metric, steps, top, label: label.as_deref() };
    let (times, series) = query.read(&app.db).await?;
    let clients: HashMap<String, String> = if metric.by == Some("client") {
        api_clients::list(&app.db, None).await?.into_iter().map(|row| (row.id, row.name)).collect()
    } else {
        HashMap::new()
    };
    let view = |Series { label, is_other, total, values }: Series| {
        let name = clients.get(&label).cloned();
        SeriesView { label, name, is_other, total, values }
    };
    let answer = MetricHistory {
        metric: metric.name,
        unit: metric.unit,
        by: metric.by,
        step: steps.step,
        from: steps.from,
        until: steps.until,
        times: times.into_iter().map(Timestamp::as_seconds).collect(),
        series: series.into_iter().map(view).collect(),
    };
    Ok(Json(answer))
}

fn steps(app: &App, query: &MetricQuery) -> Result<Steps, Error> {
    let (from, until) =
        (paging::time("from", query.from.as_deref())?, paging::time("until", query.until.as_deref())?);
    let steps = Steps::new(from, until, number("step", query.step.as_deref())?, app.clock.now());
    steps.map_err(|invalid| Error::bad_request(invalid.to_string()))
}

fn number(name: &'static str, text: Option<&str>) -> Result<Option<i64>, Error> {
    let parsed = text.map(str::parse).transpose();
    parsed.map_err(|_| Error::bad_request(format!("{name} must be a number")))
}
