//! Serves documents at fixed paths: the instance's OAuth client metadata.

use std::sync::Arc;

use http::StatusCode;

use crate::app::App;
use crate::http::{Error, Request, Response, response};
use crate::oauth::{OwnClient, own};
use crate::settings::{APP_NAME, CLIENT_URI, POLICY_URI, TOS_URI};
use crate::store::{StoreError, linked_repos};

/// `GET /oauth-client-metadata.json`: the instance's OAuth client metadata for the origin that the request came to.
pub async fn client_metadata(app: Arc<App>, request: Request) -> Result<Response, Error> {
    let origin = app.access.origins.of_host(request.headers());
    let setting = |name: &str| app.settings.get(name);
    let texts = [
        ("client_name", setting(APP_NAME)),
        ("client_uri", setting(CLIENT_URI)),
        ("logo_uri", app.settings.logo_url(&origin)),
        ("tos_uri", setting(TOS_URI)),
        ("policy_uri", setting(POLICY_URI)),
    ];
    let scopes = declared_scopes(&app).await?;
    let keys = app.sessions.authorizations.keys().published().await?;
    let metadata = OwnClient::of(&origin, &scopes).metadata(&origin, &scopes, &keys, &texts);
    Ok(response::json(StatusCode::OK, &metadata))
}

/// All scopes that logins and linked repos request.
async fn declared_scopes(app: &App) -> Result<String, StoreError> {
    let grants = linked_repos::list(&app.db).await?;
    let mut scopes: Vec<&str> = own::SCOPES.split(' ').collect();
    for scope in grants.iter().flat_map(|grant| grant.scopes.split(' ')) {
        if !scopes.contains(&scope) {
            scopes.push(scope);
        }
    }
    Ok(scopes.join(" "))
}
