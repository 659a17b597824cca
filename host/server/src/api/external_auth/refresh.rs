//! `POST /external-auth/{plugin}/refresh`: refreshes the account's tokens if they expire within a minute.

use std::sync::Arc;

use http::StatusCode;
use serde_json::json;

use crate::access::AccountCaller;
use crate::app::App;
use belvedere_web::http::{Error, Request, Response, response};

pub async fn handle(app: Arc<App>, caller: AccountCaller, request: Request) -> Result<Response, Error> {
    let (did, plugin) = (caller.user.did.as_str(), request.param("plugin"));
    let (refreshed, expires_at) = app.accounts.refresh(did, plugin).await?;
    Ok(response::json(StatusCode::OK, &json!({ "refreshed": refreshed, "expires_at": expires_at })))
}
