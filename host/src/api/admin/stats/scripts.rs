//! `GET /admin/stats/scripts`: what each script of this server has cost since it was loaded.

use std::sync::Arc;

use http::StatusCode;
use serde::Serialize;

use crate::access::Admin;
use crate::app::App;
use crate::clock::Timestamp;
use crate::http::{Error, Request, Response, response};
use crate::scripts::Tallied;

#[derive(Serialize)]
struct Answer {
    scripts: Vec<Script>,
}

#[derive(Serialize)]
struct Script {
    id: String,
    runs: u64,
    failures: u64,
    /// Milliseconds on the processor, all runs together.
    cpu_ms: f64,
    fuel: u64,
    /// Milliseconds from beginning to end of one run.
    p50_ms: Option<f64>,
    p99_ms: Option<f64>,
    last_run_at: Option<Timestamp>,
}

/// The dearest first.
pub async fn handle(app: Arc<App>, _admin: Admin, _request: Request) -> Result<Response, Error> {
    let mut tallies = app.library.tallies();
    tallies.sort_by(|(a_id, a), (b_id, b)| b.guest_time.cmp(&a.guest_time).then_with(|| a_id.cmp(b_id)));
    let scripts = tallies.into_iter().map(|(id, tallied)| Script::new(id, &tallied)).collect();
    Ok(response::json(StatusCode::OK, &Answer { scripts }))
}

impl Script {
    fn new(id: String, tallied: &Tallied) -> Self {
        let millis = |duration: std::time::Duration| duration.as_micros() as f64 / 1e3;
        Self {
            id,
            runs: tallied.runs,
            failures: tallied.failures,
            cpu_ms: millis(tallied.guest_time),
            fuel: tallied.fuel,
            p50_ms: tallied.p50.map(millis),
            p99_ms: tallied.p99.map(millis),
            last_run_at: tallied.last_run_at,
        }
    }
}
