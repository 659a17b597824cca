//! `GET /external-auth/{plugin}/authorize`: begins to link an account. The answer names our page on which the user
//! consents.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use url::form_urlencoded;

use crate::access::AccountCaller;
use crate::api::answer::{Json, JsonResult};
use crate::api::input::WithQuery;
use crate::app::App;
use belvedere_web::http::Error;

#[derive(Debug, Deserialize, JsonSchema)]
pub struct AuthorizeQuery {
    #[schemars(required)]
    redirect_uri: Option<String>,
    /// Separated by commas.
    collections: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct SignIn {
    authorize_url: String,
    state: String,
}

pub async fn handle(
    app: Arc<App>,
    caller: AccountCaller,
    request: WithQuery<AuthorizeQuery>,
) -> JsonResult<SignIn> {
    let plugin = request.param("plugin");
    let query = request.parameters()?;
    let to = query.redirect_uri.ok_or_else(|| {
        Error::bad_request("redirect_uri is missing: send the page to which the user returns")
    })?;
    let redirect_uri = app.access.return_address(&caller, &to)?;
    let collections = query.collections.map(|names| {
        names.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect()
    });
    let state = app.accounts.begin(&caller.user, plugin, redirect_uri, collections).await?;
    let query = form_urlencoded::Serializer::new(String::new()).append_pair("state", &state).finish();
    let origin = app.access.origins.primary();
    let authorize_url = format!("{origin}/external-auth/{plugin}/start?{query}");
    Ok(Json(SignIn { authorize_url, state }))
}
