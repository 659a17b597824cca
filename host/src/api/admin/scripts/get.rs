//! `GET /admin/scripts/{id}`

use std::sync::Arc;

use http::StatusCode;

use super::view::ScriptView;
use crate::access::Admin;
use crate::app::App;
use crate::http::{Error, Request, Response, response};
use crate::store::scripts;

pub async fn handle(app: Arc<App>, _admin: Admin, request: Request) -> Result<Response, Error> {
    let row = scripts::get(&app.db, request.param("id"))
        .await?
        .ok_or_else(|| Error::not_found("script not found"))?;
    Ok(response::json(StatusCode::OK, &ScriptView::from(row)))
}
