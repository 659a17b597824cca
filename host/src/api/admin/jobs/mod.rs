//! `/admin/jobs`

pub mod cancel;
pub mod get;
pub mod list;
pub mod pause;
pub mod resume;
mod view;

use http::StatusCode;
use serde_json::json;

use crate::app::App;
use crate::http::{Error, Response, response};
use crate::store::jobs::{self, JobRow};

fn not_found() -> Error {
    Error::not_found("job not found")
}

async fn find(app: &App, id: &str) -> Result<JobRow, Error> {
    jobs::get(&app.db, id).await?.ok_or_else(not_found)
}

/// Takes the one step that fits the job's status; 409 when none does.
async fn step(app: &App, id: &str, steps: &[(&str, &str)], verb: &str) -> Result<(JobRow, String), Error> {
    let job = find(app, id).await?;
    if let Some(status) = jobs::transition(&app.db, id, steps, app.clock.now()).await? {
        return Ok((job, status));
    }
    let now = find(app, id).await?.status;
    Err(Error::conflict(format!("a job that is {now} can't be {verb}")))
}

fn answer(status: &str) -> Response {
    response::json(StatusCode::OK, &json!({ "status": status }))
}
