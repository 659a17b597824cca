//! `POST /oauth/client-assertion`: signs a JWT with which an application, whose key we hold, authenticates to one
//! authorization server for one exchange.

use std::sync::Arc;

use http::StatusCode;
use serde::{Deserialize, Serialize};

use super::sessions::create;
use crate::access::{ApiClient, AssertionCaller};
use crate::app::App;
use belvedere_instance::config::Secret;
use belvedere_instance::oauth::{flow, origin_of};
use belvedere_storage::store::{api_client_keys, dpop_keys, oauth_sessions};
use belvedere_web::http::{Error, Request, Response, response};

#[derive(Deserialize)]
struct Body {
    issuer: String,
    kid: Option<String>,
    provision_id: Option<String>,
    pkce_verifier: Option<Secret<String>>,
}

#[derive(Serialize)]
struct Answer<'a> {
    client_assertion: String,
    client_assertion_type: &'static str,
    expires_in: i64,
    kid: &'a str,
}

pub async fn handle(app: Arc<App>, client: Arc<ApiClient>, request: Request) -> Result<Response, Error> {
    let body: Body = request.json()?;
    let issuer = origin_of(&body.issuer).filter(|origin| *origin == body.issuer);
    let issuer = issuer.ok_or_else(|| Error::bad_request("issuer must be an origin"))?;
    if body.provision_id.is_some() != body.pkce_verifier.is_some() {
        return Err(Error::bad_request("provision_id and pkce_verifier must be sent together"));
    }
    let mut kid = body.kid;
    match app.access.admit_assertion_caller(&client, &request).await? {
        AssertionCaller::Application => {}
        // A session keeps the key that it began with.
        AssertionCaller::Device(session) => {
            let row = oauth_sessions::get(&app.db, &session.id).await?;
            kid = kid.or_else(|| row.and_then(|row| row.assertion_kid));
        }
        AssertionCaller::Page => {
            let missing_proof =
                || Error::unauthorized("provision_id and pkce_verifier, or DPoP authentication, required");
            let (id, verifier) = body.provision_id.zip(body.pkce_verifier).ok_or_else(missing_proof)?;
            let key = dpop_keys::get(&app.db, &id).await?;
            let key = key.filter(|key| key.client_id.as_deref() == Some(&client.id));
            let key = key.ok_or_else(|| Error::not_found("DPoP key not found"))?;
            create::verify_pkce(&key, Some(&verifier))?;
        }
    }
    let key = match &kid {
        Some(kid) => api_client_keys::get(&app.db, &client.id, kid).await,
        None => api_client_keys::current(&app.db, &client.id).await,
    };
    let missing = if kid.is_some() { "the client has no key with this kid" } else { "the client has no key" };
    let key = key?.ok_or_else(|| Error::bad_request(missing))?;
    let private = app.sessions.vault.open_client_key(&key.kid, &key.sealed).map_err(Error::internal)?;
    let (id, now) = (&client.client_id_url, app.clock.now());
    let answer = Answer {
        client_assertion: flow::assertion(&private, &key.kid, id, &issuer, &app.random, now),
        client_assertion_type: flow::ASSERTION_TYPE,
        expires_in: flow::ASSERTION_LIFE,
        kid: &key.kid,
    };
    Ok(response::json(StatusCode::OK, &answer))
}
