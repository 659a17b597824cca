//! `GET /oauth-client-metadata.json`: the instance as an OAuth client, at the origin that was asked.

use std::sync::Arc;

use http::StatusCode;

use crate::app::App;
use crate::http::{Error, Request, Response, response};
use crate::oauth::OwnClient;

pub async fn handle(app: Arc<App>, request: Request) -> Result<Response, Error> {
    let origin = app.origins.of_host(request.headers());
    let setting = |name: &str| app.settings.get(name);
    let texts = [
        ("client_name", setting("app_name")),
        ("client_uri", setting("client_uri")),
        ("logo_uri", setting("logo_uri")),
        ("tos_uri", setting("tos_uri")),
        ("policy_uri", setting("policy_uri")),
    ];
    let metadata = OwnClient::of(&origin).metadata(&origin, app.authorizations.key(), &texts);
    Ok(response::json(StatusCode::OK, &metadata))
}
