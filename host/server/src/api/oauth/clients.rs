//! `/oauth/clients/{id}`: publishes the keys of API clients.

use std::sync::Arc;

use http::StatusCode;
use serde_json::json;
use serde_json::value::RawValue;

use crate::app::App;
use belvedere_storage::store::api_client_keys;
use belvedere_web::http::{Error, Request, Response, response};

/// `GET /oauth/clients/{id}/jwks.json`: an API client's public keys, for authorization servers. The answer for a client
/// that does not exist is the same as for one without keys, so that it does not reveal which clients exist. Deleted keys,
/// also those of a deleted client, are published until the sessions that began with them are revoked.
pub async fn jwks(app: Arc<App>, request: Request) -> Result<Response, Error> {
    let keys = api_client_keys::list(&app.db, request.param("id")).await?;
    let mut keys: Vec<String> = keys.into_iter().map(|key| key.public_jwk).collect();
    for deleted in app.sessions.vault.keys_of_revocations(request.param("id")).await? {
        if !keys.contains(&deleted) {
            keys.push(deleted);
        }
    }
    let keys: Vec<Box<RawValue>> =
        keys.into_iter().filter_map(|key| RawValue::from_string(key).ok()).collect();
    Ok(response::json(StatusCode::OK, &json!({ "keys": keys })))
}
