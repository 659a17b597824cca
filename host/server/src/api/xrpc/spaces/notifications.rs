//! `registerNotify`, `unregisterNotify`, `notifyWrite`, `notifySpaceDeleted`, `notifyCredentialRevoked`.

use std::sync::Arc;

use http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};

use super::input;
use crate::app::App;
use belvedere_instance::spaces::{Viewer, WriteNotice};
use belvedere_protocol::atproto::{Did, Tid};
use belvedere_protocol::spaces::SpaceUri;
use belvedere_protocol::spaces::access::ServiceRef;
use belvedere_protocol::spaces::r10::json_bytes::read_digest;
use belvedere_web::http::{Error, Request, Response, response};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ServiceBody {
    #[serde(deserialize_with = "input::text")]
    space: SpaceUri,
    service: Option<String>,
    /// `service` of an older generation, with an `endpoint` that is not used: only the DID document says where a service is.
    service_did: Option<String>,
}

impl ServiceBody {
    fn service(&self) -> Result<ServiceRef, Error> {
        let text = self.service.as_ref().or(self.service_did.as_ref());
        let text = text.ok_or_else(|| input::invalid("service is missing"))?;
        text.parse().map_err(|_| input::invalid("service is not a DID with the fragment of a service"))
    }
}

/// `POST registerNotify`: for a day. Calling it again renews the registration.
pub async fn register(app: Arc<App>, viewer: Viewer, request: Request) -> Result<Response, Error> {
    let body: ServiceBody = input::body(&request)?;
    let service = body.service()?;
    let id = body.service_did.as_ref().map(|_| service.to_string());
    let expires_at = app.spaces.register_notify(&body.space, &viewer, service).await?;
    let mut answer = json!({ "expiresAt": expires_at });
    if let Some(id) = id {
        answer["id"] = id.into();
    }
    Ok(response::json(StatusCode::OK, &answer))
}

/// `POST unregisterNotify`
pub async fn unregister(app: Arc<App>, viewer: Viewer, request: Request) -> Result<Response, Error> {
    let body: ServiceBody = input::body(&request)?;
    let removed = app.spaces.unregister_notify(&body.space, &viewer, body.service()?).await?;
    Ok(response::json(StatusCode::OK, &json!({ "removed": u8::from(removed) })))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WriteBody {
    #[serde(deserialize_with = "input::text")]
    space: SpaceUri,
    #[serde(deserialize_with = "input::text")]
    repo: Did,
    #[serde(default, deserialize_with = "input::optional_text")]
    repo_rev: Option<Tid>,
    /// `repoRev` until R10.
    #[serde(default, deserialize_with = "input::optional_text")]
    rev: Option<Tid>,
    hash: Value,
    #[serde(default, deserialize_with = "input::optional_text")]
    host: Option<Did>,
    #[serde(default, deserialize_with = "input::optional_text")]
    space_rev: Option<Tid>,
    #[serde(default, deserialize_with = "input::optional_text")]
    prev_space_rev: Option<Tid>,
}

/// `POST notifyWrite`: a repo of another host has a new commit.
pub async fn write(app: Arc<App>, viewer: Viewer, request: Request) -> Result<Response, Error> {
    let body: WriteBody = input::body(&request)?;
    let rev = body.repo_rev.or(body.rev).ok_or_else(|| input::invalid("repoRev is missing"))?;
    let hash = read_digest(&body.hash).ok_or_else(|| input::invalid("hash must have 32 bytes"))?;
    let WriteBody { space, repo, host, space_rev, prev_space_rev, .. } = body;
    let notice = WriteNotice { repo, rev, hash, host, space_rev, prev_space_rev };
    app.spaces.notify_write(&space, &viewer, notice).await?;
    Ok(success())
}

#[derive(Deserialize)]
struct SpaceBody {
    #[serde(deserialize_with = "input::text")]
    space: SpaceUri,
}

/// `POST notifySpaceDeleted`
pub async fn space_deleted(app: Arc<App>, viewer: Viewer, request: Request) -> Result<Response, Error> {
    let body: SpaceBody = input::body(&request)?;
    app.spaces.notify_space_deleted(&body.space, &viewer).await?;
    Ok(success())
}

#[derive(Deserialize)]
struct RevokedBody {
    #[serde(deserialize_with = "input::text")]
    space: SpaceUri,
    /// The `jti` of each.
    credentials: Vec<String>,
}

/// `POST notifyCredentialRevoked`
pub async fn credential_revoked(app: Arc<App>, viewer: Viewer, request: Request) -> Result<Response, Error> {
    let body: RevokedBody = input::body(&request)?;
    app.spaces.notify_credential_revoked(&body.space, &viewer, &body.credentials).await?;
    Ok(success())
}

fn success() -> Response {
    response::json(StatusCode::OK, &json!({ "success": true }))
}
