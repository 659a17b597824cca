//! `GET /admin/settings/xrpc-proxy`

use std::sync::Arc;

use http::StatusCode;

use crate::access::{Admin, ForwardingRules};
use crate::api::failed;
use crate::app::App;
use crate::http::{Error, Request, Response, response};

pub async fn handle(app: Arc<App>, _admin: Admin, _request: Request) -> Result<Response, Error> {
    let rules = ForwardingRules::load(&app.db).await.map_err(failed)?;
    Ok(response::json(StatusCode::OK, &rules))
}
