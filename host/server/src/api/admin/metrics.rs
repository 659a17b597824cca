//! `/admin/metrics`: the history of metrics.

use std::collections::HashMap;
use std::sync::Arc;

use http::StatusCode;
use serde::Serialize;

use crate::access::Admin;
use crate::api::paging;
use crate::app::App;
use belvedere_base::clock::Timestamp;
use belvedere_instance::history::{KEPT_SECONDS, Metric, Query, STEP_SECONDS, Series, Steps};
use belvedere_storage::store::api_clients;
use belvedere_web::http::{Error, Request, Response, response};

/// Series of an answer, at most: more lines in a chart can't be distinguished.
const MAX_SERIES: usize = 50;

const DEFAULT_SERIES: usize = 10;

#[derive(Serialize)]
struct NamesAnswer {
    metrics: Vec<MetricView>,
    /// The shortest step, in seconds.
    step: i64,
    kept_days: i64,
}

#[derive(Serialize)]
struct MetricView {
    metric: &'static str,
    unit: &'static str,
    by: Option<&'static str>,
    description: &'static str,
}

impl From<Metric> for MetricView {
    fn from(metric: Metric) -> Self {
        let Metric { name, unit, by, description, .. } = metric;
        Self { metric: name, unit, by, description }
    }
}

/// `GET /admin/metrics/names`: the metrics that have a history.
pub async fn names(_app: Arc<App>, _admin: Admin, _request: Request) -> Result<Response, Error> {
    let metrics = Metric::ALL.into_iter().map(MetricView::from).collect();
    let answer = NamesAnswer { metrics, step: STEP_SECONDS, kept_days: KEPT_SECONDS / 86_400 };
    Ok(response::json(StatusCode::OK, &answer))
}

#[derive(Serialize)]
struct Answer {
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

#[derive(Serialize)]
struct SeriesView {
    label: String,
    /// The name of the API client whose id is the label.
    name: Option<String>,
    is_other: bool,
    total: f64,
    values: Vec<Option<f64>>,
}

/// `GET /admin/metrics`: the history of one metric, of all hosts. It includes the latest counts of this host.
pub async fn get(app: Arc<App>, _admin: Admin, request: Request) -> Result<Response, Error> {
    let name = paging::required(&request, "metric")?;
    let metric = Metric::named(&name).ok_or_else(|| {
        let names: Vec<&str> = Metric::ALL.iter().map(|metric| metric.name).collect();
        Error::bad_request(format!("metric must be one of {}", names.join(", ")))
    })?;
    let steps = steps(&app, &request)?;
    let top = match number(&request, "top")? {
        None => DEFAULT_SERIES,
        Some(top) => usize::try_from(top)
            .ok()
            .filter(|top| (1..=MAX_SERIES).contains(top))
            .ok_or_else(|| Error::bad_request(format!("top must be a number from 1 to {MAX_SERIES}")))?,
    };
    let label = request.query("label");
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
    let answer = Answer {
        metric: metric.name,
        unit: metric.unit,
        by: metric.by,
        step: steps.step,
        from: steps.from,
        until: steps.until,
        times: times.into_iter().map(Timestamp::as_seconds).collect(),
        series: series.into_iter().map(view).collect(),
    };
    Ok(response::json(StatusCode::OK, &answer))
}

fn steps(app: &App, request: &Request) -> Result<Steps, Error> {
    let (from, until) = (paging::time(request, "from")?, paging::time(request, "until")?);
    let steps = Steps::new(from, until, number(request, "step")?, app.clock.now());
    steps.map_err(|invalid| Error::bad_request(invalid.to_string()))
}

fn number(request: &Request, name: &'static str) -> Result<Option<i64>, Error> {
    let parsed = request.query(name).map(|text| text.parse()).transpose();
    parsed.map_err(|_| Error::bad_request(format!("{name} must be a number")))
}
