//! Serves documents at fixed paths: the instance's OAuth client metadata and its DID document.

use std::sync::Arc;

use http::StatusCode;
use serde_json::json;

use crate::app::App;
use crate::http::{Error, Request, Response, response};
use crate::oauth::{OwnClient, own};
use crate::settings::{APP_NAME, CLIENT_URI, POLICY_URI, TOS_URI};
use crate::store::{StoreError, linked_repos};

/// The service in the DID document, with the id and type that PDSs and clients know for AppViews: a call with
/// `atproto-proxy: DID#bsky_appview` reaches this server (docs/adr/0040).
const SERVICE: (&str, &str) = ("#bsky_appview", "BskyAppView");

/// `GET /.well-known/did.json`: the instance's DID document, if its DID is the did:web of one of its own hosts. It is
/// the same for every Host header.
pub async fn did_document(app: Arc<App>, _request: Request) -> Result<Response, Error> {
    let did = &app.identity.did;
    if !app.access.origins.has_host_of(did) {
        let text = format!("this server's DID is {did}, whose document is not served here");
        return Err(Error::not_found(text));
    }
    // A key that the operator gave an id outside of this DID belongs to another document.
    let attestation = app.scripting.runtime.services.attestation.as_deref();
    let methods: Vec<_> = attestation
        .filter(|attestation| attestation.key_id().split_once('#').is_some_and(|(of, _)| of == did.as_str()))
        .map(|attestation| {
            json!({
                "id": attestation.key_id(),
                "type": "Multikey",
                "controller": did.as_str(),
                "publicKeyMultibase": attestation.public_key().to_multikey(),
            })
        })
        .into_iter()
        .collect();
    let (service_id, service_type) = SERVICE;
    let document = json!({
        "@context": ["https://www.w3.org/ns/did/v1", "https://w3id.org/security/multikey/v1"],
        "id": did.as_str(),
        "verificationMethod": methods,
        "service": [{ "id": service_id, "type": service_type, "serviceEndpoint": app.identity.origin }],
    });
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
    Ok(scopes.join(" "))
}
