//! `/admin/oauth/instance-key`: manages the keys with which the instance authenticates to authorization servers
//! (auth-and-clients.md §2.2).

use std::sync::Arc;

use http::StatusCode;
use serde::Serialize;
use serde_json::json;

use crate::access::Admin;
use crate::app::App;
use belvedere_base::clock::Timestamp;
use belvedere_instance::events::Event;
use belvedere_storage::store::StoreError;
use belvedere_storage::store::instance_oauth_keys::{self, CURRENT, InstanceKeyRow};
use belvedere_web::http::{Error, Request, Response, response};

#[derive(Serialize)]
struct KeyView {
    kid: String,
    status: String,
    created_at: Timestamp,
    session_count: i64,
}

impl From<InstanceKeyRow> for KeyView {
    fn from(row: InstanceKeyRow) -> Self {
        let InstanceKeyRow { kid, status, created_at, session_count, .. } = row;
        Self { kid, status, created_at, session_count }
    }
}

/// `GET /admin/oauth/instance-key`: the keys, newest first, with the number of sessions that began with each.
pub async fn list(app: Arc<App>, _admin: Admin, _request: Request) -> Result<Response, Error> {
    let rows = instance_oauth_keys::list(&app.db).await?;
    let keys: Vec<KeyView> = rows.into_iter().map(KeyView::from).collect();
    Ok(response::json(StatusCode::OK, &json!({ "keys": keys })))
}

/// `POST /admin/oauth/instance-key/rotate`: makes a new key the current one. Sessions keep the key that they began
/// with.
pub async fn rotate(app: Arc<App>, admin: Admin, _request: Request) -> Result<Response, Error> {
    let kid = app.sessions.authorizations.keys().rotate().await.map_err(|error| match error {
        StoreError::Conflict(_) => Error::conflict("another request rotates the key at the same time"),
        other => Error::from(other),
    })?;
    let orphaned_sessions = instance_oauth_keys::count_orphaned(&app.db).await?;
    app.events.record(Event::InstanceKeyRotated { actor: admin.did.to_string(), kid: kid.clone() });
    Ok(response::json(StatusCode::OK, &json!({ "kid": kid, "orphaned_sessions": orphaned_sessions })))
}

/// `DELETE /admin/oauth/instance-key/{kid}`: deletes a key that was rotated, and ends the sessions that began with it:
/// logins, and grants to linked repos.
pub async fn delete(app: Arc<App>, admin: Admin, request: Request) -> Result<Response, Error> {
    let kid = request.param("kid");
    let key = instance_oauth_keys::get(&app.db, kid).await?;
    let key = key.ok_or_else(|| Error::not_found("there is no such key"))?;
    if key.status == CURRENT {
        return Err(Error::bad_request("the current key can't be deleted: rotate it first"));
    }
    // A key that is revoked already is one whose deletion was interrupted.
    instance_oauth_keys::revoke(&app.db, kid).await?;
    let sessions_destroyed = app.sessions.vault.end_sessions_of_own_key(kid).await?;
    let (actor, kid) = (admin.did.to_string(), kid.to_owned());
    app.events.record(Event::InstanceKeyDeleted { actor, kid: kid.clone(), sessions_destroyed });
    Ok(response::json(StatusCode::OK, &json!({ "kid": kid, "sessions_destroyed": sessions_destroyed })))
}
