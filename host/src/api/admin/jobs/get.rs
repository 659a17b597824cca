//! `GET /admin/jobs/{id}`

use std::sync::Arc;

use http::StatusCode;

use super::view::JobView;
use crate::access::Admin;
use crate::app::App;
use crate::http::{Error, Request, Response, response};

pub async fn handle(app: Arc<App>, _admin: Admin, request: Request) -> Result<Response, Error> {
    let row = super::find(&app, request.param("id")).await?;
    let view = JobView::new(row).map_err(Error::internal)?;
    Ok(response::json(StatusCode::OK, &view))
}
