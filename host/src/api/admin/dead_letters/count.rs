//! `GET /admin/dead-letters/count`

use std::sync::Arc;

use http::StatusCode;
use serde_json::json;

use crate::access::Admin;
use crate::app::App;
use crate::http::{Error, Request, Response, response};
use crate::store::dead_letters;

pub async fn handle(app: Arc<App>, _admin: Admin, request: Request) -> Result<Response, Error> {
    let count = dead_letters::count(&app.db, &super::filter(&request)).await?;
    Ok(response::json(StatusCode::OK, &json!({ "count": count })))
}
