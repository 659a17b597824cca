//! `GET /admin/openapi.json`: the description of the API.

use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;

use crate::access::Admin;
use crate::app::App;
use belvedere_web::http::{Error, Request, Response, response};

const DESCRIPTION: &[u8] = include_bytes!("../../../../../dashboard/openapi.json");

pub async fn get(_app: Arc<App>, _admin: Admin, _request: Request) -> Result<Response, Error> {
    Ok(response::json_bytes(StatusCode::OK, Bytes::from_static(DESCRIPTION)))
}
