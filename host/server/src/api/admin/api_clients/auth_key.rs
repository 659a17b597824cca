//! `/admin/api-clients/{id}/auth-key`: manages the keys with which a client authenticates to authorization servers.

use std::sync::Arc;

use http::StatusCode;
use serde::Serialize;
use serde_json::{Value, json};

use crate::access::{Admin, client_keys};
use crate::app::App;
use belvedere_storage::store::api_client_keys;
use belvedere_storage::store::api_clients::{self, ApiClientRow};
use belvedere_web::http::{Error, Request, Response, response};

/// A client's current key, and whether the client's metadata declares it.
#[derive(Serialize)]
struct KeyView {
    kid: String,
    jwks_uri: String,
    /// Null when the metadata can't be read now.
    confidential: Option<bool>,
}

async fn client(app: &App, id: &str) -> Result<ApiClientRow, Error> {
    let row = api_clients::get(&app.db, id).await?;
    row.ok_or_else(|| Error::not_found("api client not found"))
}

async fn view(app: &App, client: &ApiClientRow) -> Result<KeyView, Error> {
    let key = api_client_keys::current(&app.db, &client.id).await?;
    let key = key.ok_or_else(|| Error::not_found("the client has no key"))?;
    let confidential =
        app.access.client_keys.is_confidential(&app.access, &client.id, &client.client_id_url).await;
    Ok(KeyView { kid: key.kid, jwks_uri: client_keys::jwks_uri(&app.access, &client.id), confidential })
}

/// `GET /admin/api-clients/{id}/auth-keys`: all keys, with the number of sessions that began with each.
pub async fn list(app: Arc<App>, _admin: Admin, request: Request) -> Result<Response, Error> {
    let client = client(&app, request.param("id")).await?;
    let keys = api_client_keys::in_use(&app.db, &client.id).await?;
    let keys: Vec<Value> = keys
        .into_iter()
        .map(|key| {
            json!({ "kid": key.kid, "status": key.status, "created_at": key.created_at,
                "session_count": key.session_count })
        })
        .collect();
    Ok(response::json(StatusCode::OK, &json!({ "keys": keys })))
}

/// `GET /admin/api-clients/{id}/auth-key`: the current key.
pub async fn get(app: Arc<App>, _admin: Admin, request: Request) -> Result<Response, Error> {
    let client = client(&app, request.param("id")).await?;
    Ok(response::json(StatusCode::OK, &view(&app, &client).await?))
}

/// `POST /admin/api-clients/{id}/auth-key`: creates a key, unless the client has one.
pub async fn create(app: Arc<App>, _admin: Admin, request: Request) -> Result<Response, Error> {
    let client = client(&app, request.param("id")).await?;
    let key = client_keys::generate(&app.access, &client.id);
    let made = api_client_keys::create(&app.db, &key).await?;
    let status = if made { StatusCode::CREATED } else { StatusCode::OK };
    Ok(response::json(status, &view(&app, &client).await?))
}

/// `POST /admin/api-clients/{id}/auth-key/recheck`: reads the client's metadata again, past the cache.
pub async fn recheck(app: Arc<App>, _admin: Admin, request: Request) -> Result<Response, Error> {
    let client = client(&app, request.param("id")).await?;
    app.access.client_keys.forget(&client.client_id_url).await;
    Ok(response::json(StatusCode::OK, &view(&app, &client).await?))
}

/// `DELETE /admin/api-clients/{id}/auth-key/{kid}`: deletes a key that may have leaked, and ends the sessions that
/// began with it. They are revoked at the authorization servers in the background, for which the key stays published
/// for up to two minutes.
pub async fn revoke(app: Arc<App>, _admin: Admin, request: Request) -> Result<Response, Error> {
    let client = client(&app, request.param("id")).await?;
    let vault = &app.sessions.vault;
    let (keys, sessions) = vault.delete_client_keys(&client.id, Some(request.param("kid"))).await?;
    if keys == 0 {
        return Err(Error::not_found("the client has no key with this kid"));
    }
    Ok(response::json(StatusCode::OK, &json!({ "revoked": keys, "sessions_destroyed": sessions })))
}

/// `DELETE /admin/api-clients/{id}/auth-keys`: as [`revoke`], of all keys.
pub async fn revoke_all(app: Arc<App>, _admin: Admin, request: Request) -> Result<Response, Error> {
    let client = client(&app, request.param("id")).await?;
    let (keys, sessions) = app.sessions.vault.delete_client_keys(&client.id, None).await?;
    Ok(response::json(StatusCode::OK, &json!({ "revoked": keys, "sessions_destroyed": sessions })))
}

/// `POST /admin/api-clients/{id}/auth-key/rotate`: creates a new key for new sessions; existing sessions keep theirs.
pub async fn rotate(app: Arc<App>, _admin: Admin, request: Request) -> Result<Response, Error> {
    let client = client(&app, request.param("id")).await?;
    let key = client_keys::generate(&app.access, &client.id);
    api_client_keys::rotate(&app.db, &key).await?;
    Ok(response::json(StatusCode::OK, &view(&app, &client).await?))
}
