//! `POST /admin/jobs/{id}/pause`: a running job is asked to stop; it begins again when it is resumed.

use std::sync::Arc;

use crate::access::Admin;
use crate::app::App;
use crate::http::{Error, Request, Response};

pub async fn handle(app: Arc<App>, _admin: Admin, request: Request) -> Result<Response, Error> {
    let (_, status) = super::step(&app, request.param("id"), &[("running", "pausing")], "paused").await?;
    Ok(super::answer(&status))
}
