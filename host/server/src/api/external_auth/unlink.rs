//! `POST /external-auth/{plugin}/unlink`: ends the link at once. The tokens are revoked at the service in the background.

use std::sync::Arc;

use http::StatusCode;
use serde_json::json;

use crate::access::AccountCaller;
use crate::app::App;
use belvedere_web::http::{Error, Request, Response, response};

pub async fn handle(app: Arc<App>, caller: AccountCaller, request: Request) -> Result<Response, Error> {
    let was_linked = app.accounts.unlink(caller.user.did.as_str(), request.param("plugin")).await?;
    Ok(response::json(StatusCode::OK, &json!({ "status": "ok", "was_linked": was_linked })))
}
