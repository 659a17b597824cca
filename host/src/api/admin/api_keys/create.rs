//! `POST /admin/api-keys`: a key for the caller, with permissions that the caller holds. Shown once.

use std::sync::Arc;

use http::StatusCode;
use serde::{Deserialize, Serialize};

use crate::access::{Admin, AdminKey};
use crate::app::App;
use crate::events::Event;
use crate::http::{Error, Request, Response, response};
use crate::store::api_keys::{self, NewApiKey};

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

pub async fn handle(app: Arc<App>, admin: Admin, request: Request) -> Result<Response, Error> {
    let body: Body = request.json()?;
    if body.name.trim().is_empty() {
        return Err(Error::bad_request("name must not be blank"));
    }
    let permissions = admin.granting(body.permissions.iter().map(String::as_str))?;
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
