//! `/admin/api-keys`: creates, lists and revokes the caller's own API keys.

use std::sync::Arc;

use http::StatusCode;
use serde::{Deserialize, Serialize};

use crate::access::{Admin, AdminKey};
use crate::app::{App, Topic};
use belvedere_base::clock::Timestamp;
use belvedere_instance::events::Event;
use belvedere_storage::store::api_keys::{self, ApiKeyRow, NewApiKey};
use belvedere_web::http::{Error, Request, Response, response};

#[derive(Serialize)]
struct KeyView {
    id: String,
    name: String,
    key_prefix: String,
    permissions: Vec<String>,
    created_at: Timestamp,
    last_used_at: Option<Timestamp>,
    revoked_at: Option<Timestamp>,
}

impl From<ApiKeyRow> for KeyView {
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
pub async fn list(app: Arc<App>, admin: Admin, _request: Request) -> Result<Response, Error> {
    let rows = api_keys::list_of(&app.db, &admin.user_id).await?;
    let keys: Vec<KeyView> = rows.into_iter().map(KeyView::from).collect();
    Ok(response::json(StatusCode::OK, &keys))
}

#[derive(Deserialize)]
struct Body {
    name: String,
    permissions: Vec<String>,
}

#[derive(Serialize)]
struct Answer<'a> {
    id: &'a str,
    name: &'a str,
    key: &'a str,
    key_prefix: &'a str,
    permissions: &'a [String],
}

/// `POST /admin/api-keys`: creates a key for the caller, with permissions that the caller has. The key is shown once.
pub async fn create(app: Arc<App>, admin: Admin, request: Request) -> Result<Response, Error> {
    let body: Body = request.json()?;
    if body.name.trim().is_empty() {
        return Err(Error::bad_request("name must not be blank"));
    }
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

    app.events.record(Event::ApiKeyCreated {
        actor: admin.did.to_string(),
        name: row.name.clone(),
        key_prefix: row.key_prefix.clone(),
        permissions: row.permissions.clone(),
    });
    let answer = Answer {
        id: &row.id,
        name: &row.name,
        key: key.reveal(),
        key_prefix: &row.key_prefix,
        permissions: &row.permissions,
    };
    Ok(response::json(StatusCode::CREATED, &answer))
}

/// `DELETE /admin/api-keys/{id}`: revokes a key, which stops working at once. Its row is kept.
pub async fn revoke(app: Arc<App>, admin: Admin, request: Request) -> Result<Response, Error> {
    let id = request.param("id");
    if !api_keys::revoke(&app.db, id, &admin.user_id, app.clock.now()).await? {
        return Err(Error::not_found("api key not found"));
    }
    app.changed(Topic::Admins).await?;
    app.events.record(Event::ApiKeyRevoked { actor: admin.did.to_string(), id: id.to_owned() });
    Ok(response::empty(StatusCode::NO_CONTENT))
}
