//! `GET /admin/api-clients/{id}/auth-key`: the current key.

use std::sync::Arc;

use http::StatusCode;

use super::{client, view};
use crate::access::Admin;
use crate::app::App;
use crate::http::{Error, Request, Response, response};

pub async fn handle(app: Arc<App>, _admin: Admin, request: Request) -> Result<Response, Error> {
    let client = client(&app, request.param("id")).await?;
    Ok(response::json(StatusCode::OK, &view(&app, &client).await?))
}
