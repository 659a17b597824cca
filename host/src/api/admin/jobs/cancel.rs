//! `POST /admin/jobs/{id}/cancel`: a job that does not run is cancelled at once, a running one is asked to stop.

use std::sync::Arc;

use crate::access::Admin;
use crate::app::App;
use crate::events::Event;
use crate::http::{Error, Request, Response};
use crate::store::jobs::JobRow;

pub async fn handle(app: Arc<App>, _admin: Admin, request: Request) -> Result<Response, Error> {
    let (job, status) = super::step(
        &app,
        request.param("id"),
        &[("running", "cancelling"), ("pending", "cancelled"), ("paused", "cancelled")],
        "cancelled",
    )
    .await?;
    if status == "cancelled" {
        let JobRow { created_by: actor, job_type, id: job_id, .. } = job;
        app.events.record(Event::JobCancelled { actor, job_type, job_id });
    }
    Ok(super::answer(&status))
}
