//! Serves documents at fixed paths: the instance's OAuth client metadata and its DID document.

use std::sync::Arc;

use http::StatusCode;

use crate::app::App;
use belvedere_instance::oauth::{OwnClient, own};
use belvedere_instance::service_identity::{self, Mode};
use belvedere_instance::settings::{APP_NAME, CLIENT_URI, POLICY_URI, TOS_URI};
use belvedere_storage::store::{StoreError, linked_repos};
use belvedere_web::http::{Error, Request, Response, response};

/// `GET /.well-known/did.json`: the instance's DID document, if its DID is the did:web of one of its own hosts. It is
/// the same for every Host header.
pub async fn did_document(app: Arc<App>, _request: Request) -> Result<Response, Error> {
    let (identity, did) = (&app.service_identity, app.service_identity.did());
    if !matches!(identity.mode(), None | Some(Mode::DidWeb)) {
        return Err(Error::not_found("this server's identity is not a did:web"));
    }
    if !app.access.origins.has_host_of(&did) {
        let text = format!("this server's DID is {did}, whose document is not served here");
        return Err(Error::not_found(text));
    }
    let additions = app.identity_additions().await?;
    let document = service_identity::document(identity, &app.identity.origin, &additions);
    Ok(response::json(StatusCode::OK, &document))
}

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
    // The login with the attached account requests it, to change that account's DID document.
    if app.service_identity.attached_account().is_some() && !scopes.contains(&own::IDENTITY_SCOPE) {
        scopes.push(own::IDENTITY_SCOPE);
    }
    Ok(scopes.join(" "))
}
