//! `GET /admin/openapi.json`: this description.

use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;
use serde_json::Value;

use crate::access::Admin;
use crate::api::answer::{Built, Json};
use crate::app::App;
use belvedere_web::http::{Error, Request, response};

const DESCRIPTION: &[u8] = include_bytes!("../../../../../dashboard/openapi.json");

pub async fn get(_app: Arc<App>, _admin: Admin, _request: Request) -> Result<Built<Json<Value>>, Error> {
    Ok(response::json_bytes(StatusCode::OK, Bytes::from_static(DESCRIPTION)).into())
}
