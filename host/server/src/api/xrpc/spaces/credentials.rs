//! `getDelegationToken`, `getSpaceCredential`.

use std::sync::Arc;

use http::StatusCode;
use serde::Deserialize;
use serde_json::json;

use super::input;
use crate::app::App;
use belvedere_instance::spaces::{Delegate, Viewer};
use belvedere_protocol::spaces::SpaceUri;
use belvedere_web::http::{Error, Request, Response, response};

/// `GET getDelegationToken?space=`: a token with which the app of the caller requests a credential, once.
pub async fn delegate(app: Arc<App>, viewer: Viewer, request: Request) -> Result<Response, Error> {
    let issued = app.spaces.delegate(&input::space(&request)?, &viewer).await?;
    let answer = json!({
        "token": issued.token, "delegationToken": issued.token, "expiresAt": issued.expires_at,
    });
    Ok(response::json(StatusCode::OK, &answer))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ExchangeBody {
    #[serde(deserialize_with = "input::text")]
    space: SpaceUri,
    client_attestation: Option<String>,
}

/// `POST getSpaceCredential`: a credential for the key that has signed the request.
pub async fn exchange(app: Arc<App>, delegate: Delegate, request: Request) -> Result<Response, Error> {
    let body: ExchangeBody = input::body(&request)?;
    let client = match &body.client_attestation {
        Some(token) => Some(app.access.attested_client(&request, token, &delegate.space.did).await?),
        None => None,
    };
    let issued = app.spaces.exchange(&body.space, &delegate, client.as_deref()).await?;
    let answer = json!({ "credential": issued.token, "expiresAt": issued.expires_at });
    Ok(response::json(StatusCode::OK, &answer))
}
