//! `GET /xrpc/dev.service.getApiClient?id=`

use std::sync::Arc;

use http::StatusCode;
use serde_json::json;

use super::view::{ClientView, owned};
use crate::access::ClientUser;
use crate::app::App;
use crate::http::{Error, Request, Response, response};

pub async fn handle(app: Arc<App>, caller: ClientUser, request: Request) -> Result<Response, Error> {
    caller.is_top_level()?;
    let id = request.query("id").ok_or_else(|| Error::bad_request("id is missing"))?;
    let client = ClientView::from(owned(&app, &caller, &id).await?);
    Ok(response::json(StatusCode::OK, &json!({ "client": client })))
}
