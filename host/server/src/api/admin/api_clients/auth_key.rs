//! `/admin/api-clients/{id}/auth-key`: manages the keys with which a client authenticates to authorization servers.

use std::sync::Arc;

use futures_util::future::Either;
use schemars::JsonSchema;
use serde::Serialize;

use crate::access::{Admin, client_keys};
use crate::api::answer::{Json, JsonResult};
use crate::app::App;
use belvedere_storage::store::api_client_keys::{self, KeyUse};
use belvedere_storage::store::api_clients::{self, ApiClientRow};
use belvedere_web::http::{Error, Request};

/// A client's current key, and whether the client's metadata declares it.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ClientKey {
    kid: String,
    jwks_uri: String,
    /// Null when the metadata can't be read now.
    confidential: Option<bool>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct KeyUses {
    pub keys: Vec<KeyUse>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct KeysRevoked {
    revoked: u64,
    sessions_destroyed: u64,
}

async fn client(app: &App, id: &str) -> Result<ApiClientRow, Error> {
    let row = api_clients::get(&app.db, id).await?;
    row.ok_or_else(|| Error::not_found("api client not found"))
}

async fn view(app: &App, client: &ApiClientRow) -> Result<ClientKey, Error> {
    let key = api_client_keys::current(&app.db, &client.id).await?;
    let key = key.ok_or_else(|| Error::not_found("the client has no key"))?;
    let confidential =
        app.access.client_keys.is_confidential(&app.access, &client.id, &client.client_id_url).await;
    Ok(ClientKey { kid: key.kid, jwks_uri: client_keys::jwks_uri(&app.access, &client.id), confidential })
}

/// `GET /admin/api-clients/{id}/auth-keys`: all keys of an application, with the number of sessions that began with
/// each.
pub async fn list(app: Arc<App>, _admin: Admin, request: Request) -> JsonResult<KeyUses> {
    let client = client(&app, request.param("id")).await?;
    Ok(Json(KeyUses { keys: api_client_keys::in_use(&app.db, &client.id).await? }))
}

/// `GET /admin/api-clients/{id}/auth-key`: the current key with which the server authenticates for an application.
pub async fn get(app: Arc<App>, _admin: Admin, request: Request) -> JsonResult<ClientKey> {
    let client = client(&app, request.param("id")).await?;
    Ok(Json(view(&app, &client).await?))
}

/// `POST /admin/api-clients/{id}/auth-key`: creates that key, unless the client has one.
pub async fn create(
    app: Arc<App>,
    _admin: Admin,
    request: Request,
) -> Result<Either<Json<ClientKey, 201>, Json<ClientKey>>, Error> {
    let client = client(&app, request.param("id")).await?;
    let key = client_keys::generate(&app.access, &client.id);
    let made = api_client_keys::create(&app.db, &key).await?;
    let view = view(&app, &client).await?;
    Ok(if made { Either::Left(Json(view)) } else { Either::Right(Json(view)) })
}

/// `POST /admin/api-clients/{id}/auth-key/recheck`: reads the client's metadata again, past the cache.
pub async fn recheck(app: Arc<App>, _admin: Admin, request: Request) -> JsonResult<ClientKey> {
    let client = client(&app, request.param("id")).await?;
    app.access.client_keys.forget(&client.client_id_url).await;
    Ok(Json(view(&app, &client).await?))
}

/// `DELETE /admin/api-clients/{id}/auth-key/{kid}`: deletes a key that may have leaked, and ends the sessions that
/// began with it. They are revoked at the authorization servers in the background, for which the key stays published
/// for up to two minutes.
pub async fn revoke(app: Arc<App>, _admin: Admin, request: Request) -> JsonResult<KeysRevoked> {
    let client = client(&app, request.param("id")).await?;
    let vault = &app.sessions.vault;
    let (keys, sessions) = vault.delete_client_keys(&client.id, Some(request.param("kid"))).await?;
    if keys == 0 {
        return Err(Error::not_found("the client has no key with this kid"));
    }
    Ok(Json(KeysRevoked { revoked: keys, sessions_destroyed: sessions }))
}

/// `DELETE /admin/api-clients/{id}/auth-keys`: deletes all keys of an application, and ends their sessions.
pub async fn revoke_all(app: Arc<App>, _admin: Admin, request: Request) -> JsonResult<KeysRevoked> {
    let client = client(&app, request.param("id")).await?;
    let (keys, sessions) = app.sessions.vault.delete_client_keys(&client.id, None).await?;
    Ok(Json(KeysRevoked { revoked: keys, sessions_destroyed: sessions }))
}

/// `POST /admin/api-clients/{id}/auth-key/rotate`: creates a new key for new sessions; existing sessions keep theirs.
pub async fn rotate(app: Arc<App>, _admin: Admin, request: Request) -> JsonResult<ClientKey> {
    let client = client(&app, request.param("id")).await?;
    let key = client_keys::generate(&app.access, &client.id);
    api_client_keys::rotate(&app.db, &key).await?;
    Ok(Json(view(&app, &client).await?))
}
