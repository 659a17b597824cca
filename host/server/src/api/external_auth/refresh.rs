//! `POST /external-auth/{plugin}/refresh`: refreshes the account's tokens if they expire within a minute.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;

use crate::access::AccountCaller;
use crate::api::answer::{Json, JsonResult};
use crate::app::App;
use belvedere_base::clock::Timestamp;
use belvedere_web::http::Request;

#[derive(Debug, Serialize, JsonSchema)]
pub struct RefreshedTokens {
    refreshed: bool,
    expires_at: Option<Timestamp>,
}

pub async fn handle(app: Arc<App>, caller: AccountCaller, request: Request) -> JsonResult<RefreshedTokens> {
    let (did, plugin) = (caller.user.did.as_str(), request.param("plugin"));
    let (refreshed, expires_at) = app.accounts.refresh(did, plugin).await?;
    Ok(Json(RefreshedTokens { refreshed, expires_at }))
}
