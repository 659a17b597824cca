//! `GET /external-auth/{plugin}/authorize?redirect_uri=&collections=`: begins a sign-in. The answer names our page on which
//! the user consents.

use std::sync::Arc;

use http::StatusCode;
use serde_json::json;
use url::form_urlencoded;

use crate::access::AccountCaller;
use crate::app::App;
use belvedere_web::http::{Error, Request, Response, response};

pub async fn handle(app: Arc<App>, caller: AccountCaller, request: Request) -> Result<Response, Error> {
    let plugin = request.param("plugin");
    let to = request.query("redirect_uri");
    let to = to.ok_or_else(|| {
        Error::bad_request("redirect_uri is missing: send the page to which the user returns")
    })?;
    let redirect_uri = app.access.return_address(&caller, &to)?;
    let collections = request.query("collections").map(|names| {
        names.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect()
    });
    let state = app.accounts.begin(&caller.user, plugin, redirect_uri, collections).await?;
    let query = form_urlencoded::Serializer::new(String::new()).append_pair("state", &state).finish();
    let origin = app.access.origins.primary();
    let url = format!("{origin}/external-auth/{plugin}/start?{query}");
    Ok(response::json(StatusCode::OK, &json!({ "authorize_url": url, "state": state })))
}
