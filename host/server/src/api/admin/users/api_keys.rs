//! `/admin/users/{id}/api-keys`: the API keys of a user, and keys that a user brings along from another server.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;

use super::not_found;
use crate::access::{Admin, secrets};
use crate::api::admin::api_keys::{ApiKey, check_name, record_creation};
use crate::api::answer::{Json, JsonResult};
use crate::api::input::WithBody;
use crate::app::App;
use belvedere_storage::store::StoreError;
use belvedere_storage::store::api_keys::{self, NewApiKey};
use belvedere_storage::store::users::{self, UserRow};
use belvedere_web::http::{Error, Request};

/// Maximum bytes of the beginning of a key that lists show.
const MAX_PREFIX: usize = 16;

async fn user(app: &App, id: &str) -> Result<UserRow, Error> {
    users::get(&app.db, id).await?.ok_or_else(not_found)
}

/// `GET /admin/users/{id}/api-keys`: a user's keys, newest first, revoked ones included.
pub async fn list(app: Arc<App>, _admin: Admin, request: Request) -> JsonResult<Vec<ApiKey>> {
    let user = user(&app, request.param("id")).await?;
    let rows = api_keys::list_of(&app.db, &user.id).await?;
    Ok(Json(rows.into_iter().map(ApiKey::from).collect()))
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct CarriedKey {
    name: String,
    permissions: Vec<String>,
    /// The beginning of the key, which lists show: `hv_` or `bva_` and at most 12 more characters.
    key_prefix: String,
    /// The SHA-256 of the whole key, as 64 lowercase hex digits.
    key_hash: String,
}

/// `POST /admin/users/{id}/api-keys`: stores the hash of a key that a user has from another server, so that its programs go on without
/// a change. Like other keys it has no permission that its user lacks.
pub async fn create(app: Arc<App>, admin: Admin, request: WithBody<CarriedKey>) -> JsonResult<ApiKey, 201> {
    let CarriedKey { name, permissions, key_prefix, key_hash } = request.json()?;
    check_name(&name)?;
    if !secrets::is_admin_key(&key_prefix) || key_prefix.len() > MAX_PREFIX {
        let message = format!("key_prefix must begin with hv_ or bva_, and have at most {MAX_PREFIX} bytes");
        return Err(Error::bad_request(message));
    }
    if !secrets::is_hash(&key_hash) {
        return Err(Error::bad_request(
            "key_hash must be the SHA-256 of the key, as 64 lowercase hex digits",
        ));
    }
    let permissions = admin.require_held("grant", permissions.iter().map(String::as_str))?;
    let user = user(&app, request.param("id")).await?;
    let new = NewApiKey {
        id: &app.random.uuid(),
        user_id: &user.id,
        name: &name,
        key_prefix: &key_prefix,
        key_hash: &key_hash,
        permissions: &permissions,
    };
    let row = api_keys::create(&app.db, &new, app.clock.now()).await.map_err(|error| match error {
        StoreError::Conflict(_) => Error::conflict("the key is registered already"),
        other => Error::from(other),
    })?;
    record_creation(&app, &admin, &row);
    Ok(Json(ApiKey::from(row)))
}
