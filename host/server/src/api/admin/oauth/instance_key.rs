//! `/admin/oauth/instance-key`: manages the keys with which the instance authenticates to authorization servers
//! (auth-and-clients.md §2.2).

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;

use crate::access::Admin;
use crate::api::admin::api_clients::auth_key::KeyUses;
use crate::api::answer::{Json, JsonResult};
use crate::app::App;
use belvedere_instance::events::Event;
use belvedere_storage::store::StoreError;
use belvedere_storage::store::api_client_keys::KeyUse;
use belvedere_storage::store::instance_oauth_keys::{self, CURRENT, InstanceKeyRow};
use belvedere_web::http::{Error, Request};

/// `GET /admin/oauth/instance-key`: the keys with which the instance authenticates, newest first, with the number of
/// sessions that began with each.
pub async fn list(app: Arc<App>, _admin: Admin, _request: Request) -> JsonResult<KeyUses> {
    let rows = instance_oauth_keys::list(&app.db).await?;
    let key_use = |row: InstanceKeyRow| {
        let InstanceKeyRow { kid, status, created_at, session_count, .. } = row;
        KeyUse { kid, status, created_at, session_count }
    };
    Ok(Json(KeyUses { keys: rows.into_iter().map(key_use).collect() }))
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct KeyRotated {
    kid: String,
    orphaned_sessions: i64,
}

/// `POST /admin/oauth/instance-key/rotate`: makes a new key the current one. Sessions keep the key that they began
/// with.
pub async fn rotate(app: Arc<App>, admin: Admin, _request: Request) -> JsonResult<KeyRotated> {
    let kid = app.sessions.authorizations.keys().rotate().await.map_err(|error| match error {
        StoreError::Conflict(_) => Error::conflict("another request rotates the key at the same time"),
        other => Error::from(other),
    })?;
    let orphaned_sessions = instance_oauth_keys::count_orphaned(&app.db).await?;
    app.events.record(Event::InstanceKeyRotated { actor: admin.did.to_string(), kid: kid.clone() });
    Ok(Json(KeyRotated { kid, orphaned_sessions }))
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct InstanceKeyDeleted {
    kid: String,
    sessions_destroyed: usize,
}

/// `DELETE /admin/oauth/instance-key/{kid}`: deletes a key that was rotated, and ends the sessions that began with it:
/// logins, and grants to linked repos.
pub async fn delete(app: Arc<App>, admin: Admin, request: Request) -> JsonResult<InstanceKeyDeleted> {
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
    Ok(Json(InstanceKeyDeleted { kid, sessions_destroyed }))
}
