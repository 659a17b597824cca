//! `POST /oauth/sessions`: registers the tokens that an application got with a provisioned key. The account's DID
//! document names its PDS, and the PDS confirms whose token it is; what the application sends only has to agree.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::header::HeaderMap;
use http::{Method, StatusCode};
use serde::{Deserialize, Serialize};

use crate::access::ApiClient;
use crate::access::scopes::{self, NotGranted};
use crate::app::App;
use belvedere_base::clock::Timestamp;
use belvedere_instance::config::Secret;
use belvedere_instance::events::Event;
use belvedere_instance::oauth::{Account, DpopRequest, origin_of};
use belvedere_instance::pds::Registration;
use belvedere_instance::pds::sweep::PROVISION_SECONDS;
use belvedere_protocol::atproto::Did;
use belvedere_protocol::atproto::scope::with_single_spaces;
use belvedere_protocol::crypto::{PrivateKey, ct_eq, sha256};
use belvedere_storage::store::dpop_keys::{self, DpopKeyRow};
use belvedere_storage::store::oauth_sessions;
use belvedere_web::http::{Error, Request, Response, response};
use belvedere_web::net::Limits;

/// Sessions of one user under one application: more than one user's devices. One more ends the session that was renewed
/// longest ago; rejecting it would lock out users of applications that never log out.
const MAX_DEVICES: i64 = 50;

#[derive(Deserialize)]
struct Body {
    provision_id: String,
    did: String,
    access_token: Secret<String>,
    refresh_token: Option<Secret<String>>,
    expires_at: Option<String>,
    scopes: String,
    pds_url: Option<String>,
    issuer: Option<String>,
    pkce_verifier: Option<Secret<String>>,
}

#[derive(Serialize)]
struct Answer<'a> {
    session_id: &'a str,
    did: &'a str,
    scopes: Vec<&'a str>,
}

pub async fn handle(app: Arc<App>, client: Arc<ApiClient>, request: Request) -> Result<Response, Error> {
    let body: Body = request.json()?;
    let did = Did::try_from(body.did.as_str()).map_err(|_| Error::bad_request("did is not a DID"))?;
    let expires_at = body.expires_at.as_deref().map(Timestamp::parse).transpose();
    let expires_at = expires_at.map_err(|_| Error::bad_request("expires_at is not an ISO 8601 timestamp"))?;
    let key = provisioned_key(&app, &client, &body.provision_id, &did).await?;
    verify_pkce(&key, body.pkce_verifier.as_ref())?;
    let scopes = with_single_spaces(&body.scopes);
    scopes::check_session(&app.access, &client, &scopes).await.map_err(not_granted)?;

    let account = discover_account(&app, &did, &body).await?;
    let private = app.sessions.vault.open_key(&key.id, &key.sealed).map_err(Error::internal)?;
    verify_owner(&app, &account, &private, &did, &body.access_token).await?;

    let refresh_token = body.refresh_token.as_ref().map(|token| token.reveal().as_str());
    let kid = app.access.client_keys.kid_for_new_session(&app.access, &client).await?;
    let registration = Registration {
        key_id: &key.id,
        client_id: Some(&client.id),
        did: &did,
        pds: &account.pds,
        issuer: &account.server.issuer,
        scopes: &scopes,
        access_token: body.access_token.reveal(),
        refresh_token,
        expires_at,
        oauth_client_id: &client.client_id_url,
        assertion_kid: kid.as_deref(),
    };
    let id = app.sessions.vault.register(&registration).await?;
    let id = id.ok_or_else(bound_elsewhere)?;
    app.events.record(Event::DpopSessionCreated {
        did: did.to_string(),
        client_key: client.key.clone(),
        scopes: scopes.clone(),
        refreshable: refresh_token.is_some(),
    });
    end_surplus(&app, &client, &did, &id).await?;
    let scopes = scopes.split(' ').collect();
    Ok(response::json(StatusCode::CREATED, &Answer { session_id: &id, did: did.as_str(), scopes }))
}

/// Ends the user's sessions beyond [`MAX_DEVICES`].
async fn end_surplus(app: &App, client: &ApiClient, did: &Did, newest: &str) -> Result<(), Error> {
    let surplus = oauth_sessions::surplus(&app.db, &client.id, did.as_str(), newest, MAX_DEVICES).await;
    for session_id in surplus? {
        if app.sessions.vault.end(&session_id).await? {
            let (did, client_key) = (did.to_string(), client.key.clone());
            app.events.record(Event::DpopDeviceDeleted { did, client_key, session_id });
        }
    }
    Ok(())
}

/// The provisioned key, if this client may use it for this account.
async fn provisioned_key(app: &App, client: &ApiClient, id: &str, did: &Did) -> Result<DpopKeyRow, Error> {
    let unknown = || Error::not_found("DPoP key not found");
    let key = dpop_keys::get(&app.db, id).await?.ok_or_else(unknown)?;
    if key.client_id.as_deref() != Some(&client.id) {
        return Err(Error::unauthorized("provision_id does not belong to this client"));
    }
    match &key.did {
        Some(bound) if bound != did.as_str() => Err(bound_elsewhere()),
        // Expired, though the sweep has not deleted it yet.
        None if key.created_at.plus_seconds(PROVISION_SECONDS) <= app.clock.now() => {
            Err(Error::not_found("DPoP key has expired: provision another one"))
        }
        _ => Ok(key),
    }
}

fn bound_elsewhere() -> Error {
    Error::unauthorized("provision_id is in use for another account")
}

/// Verifies PKCE (RFC 7636 §4.6): the application that registers the session must have requested the key.
pub(in crate::api::oauth) fn verify_pkce(
    key: &DpopKeyRow,
    verifier: Option<&Secret<String>>,
) -> Result<(), Error> {
    let Some(challenge) = &key.pkce_challenge else { return Ok(()) };
    let verifier = verifier.ok_or_else(|| Error::bad_request("public clients must provide pkce_verifier"))?;
    let hash = URL_SAFE_NO_PAD.encode(sha256(verifier.reveal().as_bytes()));
    if ct_eq(hash.as_bytes(), challenge.as_bytes()) {
        return Ok(());
    }
    Err(Error::unauthorized("PKCE verification failed"))
}

fn not_granted(error: NotGranted) -> Error {
    match error {
        NotGranted::Store(error) => Error::from(error),
        other => Error::bad_request(other.to_string()),
    }
}

/// The account's PDS and authorization server, from its DID document and its PDS. The request must not name others.
async fn discover_account(app: &App, did: &Did, body: &Body) -> Result<Account, Error> {
    let account = app.sessions.discovery.account(did).await.map_err(|error| {
        let status = if error.is_temporary() { StatusCode::BAD_GATEWAY } else { StatusCode::BAD_REQUEST };
        Error::new(status, error.to_string())
    })?;
    let differs = |sent: &Option<String>, found: &str| {
        sent.as_deref().is_some_and(|sent| origin_of(sent).as_deref() != Some(found))
    };
    if differs(&body.pds_url, &account.pds) {
        return Err(Error::bad_request(format!("pds_url is not the account's PDS, {}", account.pds)));
    }
    if differs(&body.issuer, &account.server.issuer) {
        let issuer = &account.server.issuer;
        return Err(Error::bad_request(format!(
            "issuer is not the account's authorization server, {issuer}"
        )));
    }
    Ok(account)
}

/// Calls the PDS with the token and a proof by the provisioned key: shows that the token is valid there, bound to that
/// key, and this account's.
async fn verify_owner(
    app: &App,
    account: &Account,
    key: &PrivateKey,
    did: &Did,
    token: &Secret<String>,
) -> Result<(), Error> {
    #[derive(Deserialize)]
    struct GetSession {
        did: String,
    }
    let url = format!("{}/xrpc/com.atproto.server.getSession", account.pds);
    let headers = HeaderMap::new();
    let request =
        DpopRequest { method: Method::GET, url: &url, headers, body: None, limits: Limits::DOCUMENT };
    let fetched = app.sessions.dpop.send(key, Some(token.reveal()), &request).await.map_err(|error| {
        Error::new(StatusCode::BAD_GATEWAY, format!("the account's PDS does not answer: {error}"))
    })?;
    if !fetched.status.is_success() {
        let status = fetched.status.as_u16();
        return Err(Error::unauthorized(format!("access token verification failed ({status})")));
    }
    match serde_json::from_slice::<GetSession>(&fetched.body) {
        Ok(session) if session.did == did.as_str() => Ok(()),
        Ok(_) => Err(Error::unauthorized("access token does not belong to the claimed DID")),
        Err(_) => Err(Error::unauthorized("access token verification failed (no session)")),
    }
}
