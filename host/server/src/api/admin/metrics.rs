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
use belvedere_instance::history::{Metric, Period, Query, Read, Series, Steps, kept_seconds};
use belvedere_storage::store::metric_resolution::Resolution;
use belvedere_storage::store::{api_clients, metric_history};
use belvedere_web::http::{Error, Request};

/// Series of an answer, at most: more lines in a chart can't be distinguished.
const MAX_SERIES: usize = 50;

const DEFAULT_SERIES: usize = 10;

#[derive(Debug, Serialize, JsonSchema)]
pub struct MetricNames {
    metrics: Vec<MetricInfo>,
    /// The lengths of steps that are stored, the shortest first. A step of an answer is a multiple of one.
    steps: Vec<StepInfo>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct StepInfo {
    /// Seconds.
    step: i64,
    /// Hours for which such steps are kept.
    kept_hours: i64,
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
    let info = |one: Resolution| StepInfo { step: one.seconds(), kept_hours: kept_seconds(one) / 3_600 };
    Ok(Json(MetricNames { metrics, steps: Resolution::ALL.map(info).into() }))
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct MetricHistory {
    metric: &'static str,
    unit: &'static str,
    by: Option<&'static str>,
    /// Seconds between two times.
    step: i64,
    /// Not before the history begins, unless it is compared.
    from: Timestamp,
    until: Timestamp,
    /// The time at which the history of this server begins. Null: nothing is stored.
    begins: Option<Timestamp>,
    /// Seconds since 1970 at which each step begins.
    times: Vec<i64>,
    series: Vec<SeriesView>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Series")]
struct SeriesView {
    /// The name of the method, script or collection, or the id of the client. Empty for a metric that has one series.
    label: String,
    /// The name of the API client whose id is the label.
    name: Option<String>,
    /// The sum of the series that are not listed.
    is_other: bool,
    /// The sum of a counter's values; of other metrics the largest value.
    total: f64,
    /// One for each of `times`. Null: nothing was measured.
    values: Vec<Option<f64>>,
    /// Those of the period before, which ends where this one begins. Only with `compare`.
    #[serde(skip_serializing_if = "Option::is_none")]
    previous: Option<Vec<Option<f64>>>,
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct MetricQuery {
    #[schemars(required)]
    metric: Option<String>,
    /// A day before `until` if absent. Two months are kept.
    #[schemars(with = "Option<Timestamp>")]
    from: Option<String>,
    /// Now if absent.
    #[schemars(with = "Option<Timestamp>")]
    until: Option<String>,
    /// Seconds, a multiple of 60; of 300 or 3600 for a time of which no shorter steps are kept. The server chooses at most 300 steps
    /// if absent.
    #[schemars(with = "Option<u32>")]
    step: Option<String>,
    /// Series, 1 to 50. 10 if absent.
    #[schemars(with = "Option<u32>")]
    top: Option<String>,
    /// Only this series.
    label: Option<String>,
    /// `true`: one series of all names together, with an empty label. Percentiles are those of all calls.
    #[schemars(with = "Option<bool>")]
    combined: Option<String>,
    /// `previous`: with the values of the period before.
    #[schemars(with = "Option<Compare>")]
    compare: Option<String>,
}

/// The period that a history is compared with.
#[derive(Debug, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[expect(dead_code, reason = "describes the parameter")]
enum Compare {
    Previous,
}

/// `GET /admin/metrics`: the history of one metric, of all hosts. It includes the latest counts of this host.
pub async fn get(app: Arc<App>, _admin: Admin, request: WithQuery<MetricQuery>) -> JsonResult<MetricHistory> {
    let parameters = request.parameters()?;
    let name = paging::required("metric", parameters.metric.clone())?;
    let metric = Metric::named(&name).ok_or_else(|| {
        let names: Vec<&str> = Metric::ALL.iter().map(|metric| metric.name).collect();
        Error::bad_request(format!("metric must be one of {}", names.join(", ")))
    })?;
    let is_compared = match parameters.compare.as_deref() {
        None => false,
        Some("previous") => true,
        Some(_) => return Err(Error::bad_request("compare must be previous, or absent")),
    };
    let period = Period {
        from: paging::time("from", parameters.from.as_deref())?,
        until: paging::time("until", parameters.until.as_deref())?,
        step: number("step", parameters.step.as_deref())?,
        is_compared,
    };
    let top = match number("top", parameters.top.as_deref())? {
        None => DEFAULT_SERIES,
        Some(top) => usize::try_from(top)
            .ok()
            .filter(|top| (1..=MAX_SERIES).contains(top))
            .ok_or_else(|| Error::bad_request(format!("top must be a number from 1 to {MAX_SERIES}")))?,
    };
    let label = parameters.label;
    let is_combined = paging::flag("combined", parameters.combined.as_deref(), false)?;
    if is_combined && label.is_some() {
        return Err(Error::bad_request("combined is all series together: leave label or combined out"));
    }
    app.flush_history().await?;
    let begins = metric_history::begin(&app.db).await?;
    let steps = Steps::new(period, begins, app.clock.now())
        .map_err(|invalid| Error::bad_request(invalid.to_string()))?;
    let query = Query { metric, steps, top, label: label.as_deref(), is_combined, is_compared };
    let Read { times, series } = query.read(&app.db).await?;
    let clients: HashMap<String, String> = if metric.by == Some("client") {
        api_clients::list(&app.db, None).await?.into_iter().map(|row| (row.id, row.name)).collect()
    } else {
        HashMap::new()
    };
    let view = |Series { label, is_other, total, values, previous }: Series| {
        let name = clients.get(&label).cloned();
        SeriesView { label, name, is_other, total, values, previous }
    };
    let answer = MetricHistory {
        metric: metric.name,
        unit: metric.unit,
        by: metric.by,
        step: steps.step,
        from: steps.from,
        until: steps.until,
        begins,
        times: times.into_iter().map(Timestamp::as_seconds).collect(),
        series: series.into_iter().map(view).collect(),
    };
    Ok(Json(answer))
}

fn number(name: &'static str, text: Option<&str>) -> Result<Option<i64>, Error> {
    let parsed = text.map(str::parse).transpose();
    parsed.map_err(|_| Error::bad_request(format!("{name} must be a number")))
}
