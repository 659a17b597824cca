//! `POST /external-auth/{plugin}/unlink`: unlinks the account at once. The tokens are revoked at the service in the
//! background.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;

use crate::access::AccountCaller;
use crate::api::answer::{Json, JsonResult};
use crate::app::App;
use belvedere_web::http::Request;

#[derive(Debug, Serialize, JsonSchema)]
pub struct UnlinkedAccount {
    status: &'static str,
    was_linked: bool,
}

pub async fn handle(app: Arc<App>, caller: AccountCaller, request: Request) -> JsonResult<UnlinkedAccount> {
    let was_linked = app.accounts.unlink(caller.user.did.as_str(), request.param("plugin")).await?;
    Ok(Json(UnlinkedAccount { status: "ok", was_linked }))
}
