//! `/admin/api-keys`: creates, lists and revokes the caller's own API keys.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::access::{Admin, AdminKey};
use crate::api::answer::{Empty, EmptyResult, Json, JsonResult};
use crate::api::input::WithBody;
use crate::app::{App, Topic};
use belvedere_base::clock::Timestamp;
use belvedere_instance::events::Event;
use belvedere_storage::store::api_keys::{self, ApiKeyRow, NewApiKey};
use belvedere_web::http::{Error, Request};

#[derive(Debug, Serialize, JsonSchema)]
pub struct ApiKey {
    id: String,
    name: String,
    key_prefix: String,
    permissions: Vec<String>,
    created_at: Timestamp,
    last_used_at: Option<Timestamp>,
    revoked_at: Option<Timestamp>,
}

impl From<ApiKeyRow> for ApiKey {
    fn from(row: ApiKeyRow) -> Self {
        Self {
            id: row.id,
            name: row.name,
            key_prefix: row.key_prefix,
            permissions: row.permissions,
            created_at: row.created_at,
            last_used_at: row.last_used_at,
            revoked_at: row.revoked_at,
        }
    }
}

/// `GET /admin/api-keys`: the caller's own keys, newest first, revoked ones included.
pub async fn list(app: Arc<App>, admin: Admin, _request: Request) -> JsonResult<Vec<ApiKey>> {
    let rows = api_keys::list_of(&app.db, &admin.user_id).await?;
    Ok(Json(rows.into_iter().map(ApiKey::from).collect()))
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct NewKey {
    name: String,
    permissions: Vec<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct CreatedKey {
    id: String,
    name: String,
    key: String,
    key_prefix: String,
    permissions: Vec<String>,
}

/// `POST /admin/api-keys`: creates a key for the caller, with permissions that the caller has. The key is shown once.
pub async fn create(app: Arc<App>, admin: Admin, request: WithBody<NewKey>) -> JsonResult<CreatedKey, 201> {
    let body = request.json()?;
    check_name(&body.name)?;
    let permissions = admin.require_held("grant", body.permissions.iter().map(String::as_str))?;
    let key = AdminKey::generate(&app.random);
    let new = NewApiKey {
        id: &app.random.uuid(),
        user_id: &admin.user_id,
        name: &body.name,
        key_prefix: key.prefix(),
        key_hash: &key.hash(),
        permissions: &permissions,
    };
    let row = api_keys::create(&app.db, &new, app.clock.now()).await?;
    record_creation(&app, &admin, &row);
    let ApiKeyRow { id, name, key_prefix, permissions, .. } = row;
    Ok(Json(CreatedKey { id, name, key: key.reveal().to_owned(), key_prefix, permissions }))
}

pub(super) fn record_creation(app: &App, admin: &Admin, row: &ApiKeyRow) {
    app.events.record(Event::ApiKeyCreated {
        actor: admin.did.to_string(),
        name: row.name.clone(),
        key_prefix: row.key_prefix.clone(),
        permissions: row.permissions.clone(),
    });
}

pub(super) fn check_name(name: &str) -> Result<(), Error> {
    if name.trim().is_empty() {
        return Err(Error::bad_request("name must not be blank"));
    }
    Ok(())
}

/// `DELETE /admin/api-keys/{id}`: revokes a key, which stops working at once. Its row is kept.
pub async fn revoke(app: Arc<App>, admin: Admin, request: Request) -> EmptyResult {
    let id = request.param("id");
    if !api_keys::revoke(&app.db, id, &admin.user_id, app.clock.now()).await? {
        return Err(Error::not_found("api key not found"));
    }
    app.changed(Topic::Admins).await?;
    app.events.record(Event::ApiKeyRevoked { actor: admin.did.to_string(), id: id.to_owned() });
    Ok(Empty)
}
