//! `GET /admin/records/collections`: the collections that are indexed.

use std::sync::Arc;

use http::StatusCode;
use serde_json::json;

use crate::access::Admin;
use crate::app::App;
use crate::atproto::Nsid;
use crate::http::{Error, Request, Response, response};

pub async fn handle(app: Arc<App>, _admin: Admin, _request: Request) -> Result<Response, Error> {
    let snapshot = app.registry.snapshot();
    let collections: Vec<&str> = snapshot.tracked().iter().map(Nsid::as_str).collect();
    Ok(response::json(StatusCode::OK, &json!({ "collections": collections })))
}
