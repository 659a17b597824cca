//! `app.bsky.actor.getProfile`: the profile of the caller, or of the `actor` that they name, from that account's PDS
//! (service.md, Public and XRPC).

use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::pay_for_handle;
use crate::app::App;
use belvedere_instance::identity::{DidDocument, HandleError, IdentityError};
use belvedere_instance::xrpc::{Answer, Call, Caller};
use belvedere_protocol::atproto::{Did, Handle, blobs, typed};
use belvedere_web::http::Error;
use belvedere_web::net::Limits;

/// The profile of an account; fields that its PDS does not have are `None`.
#[derive(Debug, Default)]
pub struct Profile {
    pub display_name: Option<String>,
    pub description: Option<String>,
    pub avatar_url: Option<String>,
}

#[derive(Serialize)]
struct ProfileView<'a> {
    did: &'a str,
    handle: &'a str,
    #[serde(rename = "displayName", skip_serializing_if = "Option::is_none")]
    display_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    #[serde(rename = "avatarURL", skip_serializing_if = "Option::is_none")]
    avatar_url: Option<String>,
}

#[derive(Deserialize)]
struct GetRecord {
    value: Value,
}

/// # Errors
/// 401 for an anonymous call, 400 for a malformed `actor`, 404 for an account that does not exist, 502 when its PDS or
/// its DID document can't be reached.
pub async fn answer(app: &App, call: &Call) -> Result<Answer, Error> {
    let caller = call.caller.did.as_ref().ok_or_else(|| Error::unauthorized("authentication required"))?;
    let did = match call.param("actor") {
        Some(actor) => actor_did(app, &call.caller, actor).await?,
        None => caller.clone(),
    };
    let document = app.core.resolver.for_reads().resolve(&did).await.map_err(unresolved)?;
    let Profile { display_name, description, avatar_url } = read(app, &document).await?;
    let handle = document.handle().unwrap_or(did.as_str());
    let profile = ProfileView { did: did.as_str(), handle, display_name, description, avatar_url };
    let body = serde_json::to_vec(&profile).map_err(Error::internal)?;
    Ok(Answer::json(StatusCode::OK, body.into()))
}

/// Reads the profile record of an account from its PDS; empty for an account without one.
///
/// # Errors
/// 404 when the DID document names no PDS, 502 when it does not answer.
pub async fn read(app: &App, document: &DidDocument) -> Result<Profile, Error> {
    let did = document.did();
    let pds = document.pds().ok_or_else(|| Error::not_found("the DID document names no PDS"))?;
    let url = format!(
        "{pds}/xrpc/com.atproto.repo.getRecord?repo={did}&collection=app.bsky.actor.profile&rkey=self"
    );
    let fetched = app.core.net.get(&url, Limits::DOCUMENT).await;
    let fetched = fetched.map_err(|error| {
        tracing::info!(%did, %error, "a profile could not be read");
        Error::new(StatusCode::BAD_GATEWAY, "the PDS does not answer")
    })?;
    let record: Option<GetRecord> =
        if fetched.status.is_success() { serde_json::from_slice(&fetched.body).ok() } else { None };
    let value = record.map(|record| record.value).unwrap_or_default();
    let text = |name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
    let avatar = value.pointer("/avatar/ref/$link").and_then(Value::as_str);
    Ok(Profile {
        display_name: text("displayName"),
        description: text("description"),
        avatar_url: avatar.map(|cid| blobs::url(pds, did.as_str(), cid)),
    })
}

/// The account that `actor`, a handle or a DID, names.
async fn actor_did(app: &App, caller: &Caller, actor: &str) -> Result<Did, Error> {
    let actor = &*typed(actor);
    let name = actor.strip_prefix('@').unwrap_or(actor);
    if let Ok(handle) = Handle::try_from(name) {
        pay_for_handle(app, &app.core.resolver, caller, &handle)?;
    }
    app.core.resolver.account_for_read(name).await.map_err(|error| match error {
        HandleError::Malformed => Error::bad_request("actor is neither a handle nor a DID"),
        HandleError::Unknown | HandleError::Unclaimed(_) => Error::not_found(format!("actor: {error}")),
        HandleError::Slow | HandleError::Unreachable | HandleError::TooMany => {
            Error::new(StatusCode::BAD_GATEWAY, format!("actor: {error}"))
        }
        HandleError::Identity(error) => unresolved(error),
    })
}

fn unresolved(error: IdentityError) -> Error {
    let status = if error.is_temporary() { StatusCode::BAD_GATEWAY } else { StatusCode::NOT_FOUND };
    Error::new(status, error.to_string())
}
