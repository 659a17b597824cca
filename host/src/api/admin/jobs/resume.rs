//! `POST /admin/jobs/{id}/resume`: a paused job waits for its turn again, from the top.

use std::sync::Arc;

use crate::access::Admin;
use crate::app::App;
use crate::http::{Error, Request, Response};

pub async fn handle(app: Arc<App>, _admin: Admin, request: Request) -> Result<Response, Error> {
    let (_, status) = super::step(&app, request.param("id"), &[("paused", "pending")], "resumed").await?;
    app.jobs.wake();
    Ok(super::answer(&status))
}
