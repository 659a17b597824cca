//! `GET /xrpc/app.bsky.actor.getProfile`: the caller's own profile, from their PDS.

use std::sync::Arc;

use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::app::App;
use crate::atproto::blobs;
use crate::http::{Error, Request, Response, response};
use crate::net::Limits;
use crate::xrpc::Caller;

#[derive(Serialize)]
struct Profile<'a> {
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

pub async fn handle(app: Arc<App>, caller: Caller, _request: Request) -> Result<Response, Error> {
    let did = caller.did.ok_or_else(|| Error::unauthorized("authentication required"))?;
    let did = &did;
    let document = app.outbound.resolver.resolve(did).await.map_err(|error| {
        let status = if error.is_temporary() { StatusCode::BAD_GATEWAY } else { StatusCode::NOT_FOUND };
        Error::new(status, error.to_string())
    })?;
    let pds = document.pds().ok_or_else(|| Error::not_found("the DID document names no PDS"))?;
    let url = format!(
        "{pds}/xrpc/com.atproto.repo.getRecord?repo={did}&collection=app.bsky.actor.profile&rkey=self"
    );
    let fetched = app.outbound.net.get(&url, Limits::DOCUMENT).await;
    let fetched = fetched.map_err(|error| {
        tracing::info!(%did, %error, "a profile could not be read");
        Error::new(StatusCode::BAD_GATEWAY, "the PDS does not answer")
    })?;
    // An account without a profile record still has a handle.
    let record: Option<GetRecord> =
        if fetched.status.is_success() { serde_json::from_slice(&fetched.body).ok() } else { None };
    let value = record.map(|record| record.value).unwrap_or_default();
    let text = |name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
    let avatar = value.pointer("/avatar/ref/$link").and_then(Value::as_str);
    let profile = Profile {
        did: did.as_str(),
        handle: document.handle().unwrap_or(did.as_str()),
        display_name: text("displayName"),
        description: text("description"),
        avatar_url: avatar.map(|cid| blobs::url(pds, did.as_str(), cid)),
    };
    Ok(response::json(StatusCode::OK, &profile))
}
