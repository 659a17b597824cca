//! `GET /admin/dead-letters/{id}`: one letter, with the record or the label that it is about.

use std::sync::Arc;

use http::StatusCode;

use super::view::Detail;
use crate::access::Admin;
use crate::app::App;
use crate::http::{Error, Request, Response, response};

pub async fn handle(app: Arc<App>, _admin: Admin, request: Request) -> Result<Response, Error> {
    let row = super::find(&app, request.param("id")).await?;
    let detail = Detail::new(row).map_err(Error::internal)?;
    Ok(response::json(StatusCode::OK, &detail))
}
