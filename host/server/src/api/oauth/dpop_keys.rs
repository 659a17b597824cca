//! `POST /oauth/dpop-keys`: generates a key pair, which the application uses for its OAuth flow with a user's PDS. The
//! private key is shown in this response only; the instance stores it to call the PDS for the user later.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::access::{ApiClient, secrets};
use crate::app::App;
use belvedere_instance::events::Event;
use belvedere_protocol::crypto::{Algorithm, PrivateKey, jwk};
use belvedere_storage::store::dpop_keys::{self, DpopKeyRow};
use belvedere_web::http::{Error, Request, Response, response};

#[derive(Deserialize)]
struct Body {
    pkce_challenge: Option<String>,
}

#[derive(Serialize)]
struct Answer {
    provision_id: String,
    dpop_key: Value,
    /// Whether the application authenticates to authorization servers with our client assertions.
    confidential: bool,
}

pub async fn handle(app: Arc<App>, client: Arc<ApiClient>, request: Request) -> Result<Response, Error> {
    let body: Body = request.json()?;
    let pkce_challenge = match body.pkce_challenge {
        Some(challenge) if client.is_public() => Some(check_challenge(challenge)?),
        None if client.is_public() => {
            return Err(Error::bad_request("public clients must provide pkce_challenge"));
        }
        // A confidential client authenticates with its secret.
        _ => None,
    };
    let key = PrivateKey::generate(Algorithm::Es256, &app.random);
    let (Some(private), Some(thumbprint)) = (jwk::private_jwk(&key), jwk::thumbprint(&key.public())) else {
        return Err(Error::internal("the generated key is not a P-256 key"));
    };
    let id = secrets::provision_id(&app.random);
    let row = DpopKeyRow {
        sealed: app.sessions.vault.seal_key(&id, &key),
        id,
        client_id: Some(client.id.clone()),
        thumbprint,
        pkce_challenge,
        did: None,
        created_at: app.clock.now(),
    };
    dpop_keys::create(&app.db, &row).await?;
    app.events.record(Event::DpopKeyProvisioned {
        provision_id: row.id.clone(),
        client_key: client.key.clone(),
        thumbprint: row.thumbprint,
    });
    let confidential = app.access.client_keys.kid_for_new_session(&app.access, &client).await?.is_some();
    let answer = Answer { provision_id: row.id, dpop_key: private, confidential };
    Ok(response::json(StatusCode::CREATED, &answer))
}

/// Checks an S256 challenge (RFC 7636 §4.2): base64url of 32 bytes.
fn check_challenge(challenge: String) -> Result<String, Error> {
    if URL_SAFE_NO_PAD.decode(&challenge).is_ok_and(|hash| hash.len() == 32) {
        return Ok(challenge);
    }
    Err(Error::bad_request("pkce_challenge must be base64url of a SHA-256, without padding"))
}
