//! `GET /admin/settings/xrpc-proxy`

use std::sync::Arc;

use http::StatusCode;

use crate::access::Admin;
use crate::app::App;
use crate::http::{Error, Request, Response, response};
use crate::lexicons::ForwardingRules;

pub async fn handle(app: Arc<App>, _admin: Admin, _request: Request) -> Result<Response, Error> {
    let rules = ForwardingRules::load(&app.db).await?;
    Ok(response::json(StatusCode::OK, &rules))
}
