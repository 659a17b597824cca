//! `GET /admin/api-clients/{id}`

use std::sync::Arc;

use http::StatusCode;

use super::view::ClientView;
use crate::access::Admin;
use crate::app::App;
use crate::http::{Error, Request, Response, response};
use crate::store::api_clients;

pub async fn handle(app: Arc<App>, _admin: Admin, request: Request) -> Result<Response, Error> {
    let row = api_clients::get(&app.db, request.param("id"))
        .await?
        .ok_or_else(|| Error::not_found("api client not found"))?;
    Ok(response::json(StatusCode::OK, &ClientView::from(row)))
}
