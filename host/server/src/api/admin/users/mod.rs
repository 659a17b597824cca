//! `/admin/users`: manages admin users, their permissions and their sessions with the dashboard.

pub mod api_keys;
pub mod sessions;

use std::sync::Arc;

use http::StatusCode;
use schemars::JsonSchema;
use serde::Deserialize;

use super::account::account_of;
use crate::access::{Admin, Permission, Template};
use crate::api::answer::{Empty, EmptyResult, Json, JsonResult};
use crate::api::body::or_default;
use crate::api::input::WithBody;
use crate::app::{App, Topic};
use belvedere_instance::events::Event;
use belvedere_instance::settings::SPACES_ENABLED;
use belvedere_protocol::atproto::Did;
use belvedere_storage::store::StoreError;
use belvedere_storage::store::users::{self, Deletion, UserRow};
use belvedere_web::http::{Error, Request};

fn not_found() -> Error {
    Error::not_found("user not found")
}

/// `GET /admin/users`: the admin users, oldest first.
pub async fn list(app: Arc<App>, _admin: Admin, _request: Request) -> JsonResult<Vec<UserRow>> {
    Ok(Json(users::list(&app.db).await?))
}

/// `GET /admin/users/{id}`: an admin user.
pub async fn get(app: Arc<App>, _admin: Admin, request: Request) -> JsonResult<UserRow> {
    users::get(&app.db, request.param("id")).await?.map(Json).ok_or_else(not_found)
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct NewUser {
    /// A DID or a handle.
    #[schemars(extend("format" = "at-identifier"))]
    did: String,
    template: Option<String>,
    permissions: Option<Vec<String>>,
    /// Whether the DID becomes a user without being looked up.
    #[serde(default, deserialize_with = "or_default")]
    unchecked: bool,
}

/// Refuses a DID that does not exist: a mistyped one must not become a user.
async fn check_existence(app: &App, did: &Did) -> Result<(), Error> {
    let Err(error) = app.core.resolver.resolve(did).await else { return Ok(()) };
    Err(if error.is_temporary() {
        let hint = "try again, or send \"unchecked\": true if you are sure of the DID";
        Error::new(StatusCode::BAD_GATEWAY, format!("{did} could not be checked: {error}; {hint}"))
    } else {
        Error::bad_request(format!("{did} can't become a user: {error}; check it for a typo"))
    })
}

/// `POST /admin/users`: makes an account an admin user, with the permissions of a list, else of a template, else with none.
pub async fn create(app: Arc<App>, admin: Admin, request: WithBody<NewUser>) -> JsonResult<UserRow, 201> {
    let body = request.json()?;
    let did = account_of(&app, "did", &body.did).await?;
    if did == admin.did {
        return Err(Error::forbidden("you can't change your own permissions"));
    }
    let template = match &body.template {
        Some(name) => Template::parse(name)
            .map(|template| template.permissions(app.settings.flag(SPACES_ENABLED)))
            .ok_or_else(|| Error::bad_request(format!("{name} is not a template")))?,
        None => Vec::new(),
    };
    // A list replaces the template (admin-api.md §1.4).
    let template_used = body.template.filter(|_| body.permissions.is_none());
    let mut granted = match &body.permissions {
        Some(listed) => admin.require_held("grant", listed.iter().map(String::as_str))?,
        None => admin.require_held("grant", template.into_iter().map(Permission::as_str))?,
    };
    granted.sort_unstable();
    granted.dedup();

    if !body.unchecked {
        check_existence(&app, &did).await?;
    }
    let row = users::create(&app.db, &app.random.uuid(), did.as_str(), &granted, app.clock.now())
        .await
        .map_err(|error| match error {
            StoreError::Conflict(_) => Error::conflict(format!("{did} is already a user")),
            other => Error::from(other),
        })?;
    app.events.record(Event::UserCreated {
        actor: Some(admin.did.to_string()),
        did: row.did.clone(),
        template: template_used,
        permissions: row.permissions.clone(),
    });
    Ok(Json(row))
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct PermissionsPatch {
    #[serde(default, deserialize_with = "or_default")]
    grant: Vec<String>,
    #[serde(default, deserialize_with = "or_default")]
    revoke: Vec<String>,
}

/// `PATCH /admin/users/{id}/permissions`: grants and revokes permissions of another user. The user's API keys lose
/// revoked permissions at once.
pub async fn permissions(
    app: Arc<App>,
    admin: Admin,
    request: WithBody<PermissionsPatch>,
) -> JsonResult<UserRow> {
    let id = request.param("id");
    if id == admin.user_id {
        return Err(Error::forbidden("you can't change your own permissions"));
    }
    let body = request.json()?;
    if let Some(name) = body.grant.iter().find(|name| body.revoke.contains(name)) {
        return Err(Error::bad_request(format!("{name} can't be both granted and revoked")));
    }
    let granted = admin.require_held("grant", body.grant.iter().map(String::as_str))?;
    let revoked = admin.require_held("revoke", body.revoke.iter().map(String::as_str))?;

    let Some(row) = users::set_permissions(&app.db, id, &granted, &revoked).await? else {
        return Err(match users::get(&app.db, id).await? {
            Some(_) => Error::forbidden("the super user's permissions can't be changed"),
            None => not_found(),
        });
    };
    app.changed(Topic::Admins).await?;
    app.events.record(Event::UserPermissionsUpdated {
        actor: admin.did.to_string(),
        id: row.id.clone(),
        granted: body.grant,
        revoked: body.revoke,
    });
    Ok(Json(row))
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct SuperTransfer {
    target_user_id: String,
}

/// `POST /admin/users/transfer-super`: makes another user the super user. Only the super user in person may call this;
/// it keeps the permissions that are listed for it.
pub async fn transfer_super(
    app: Arc<App>,
    admin: Admin,
    request: WithBody<SuperTransfer>,
) -> JsonResult<UserRow> {
    let SuperTransfer { target_user_id: to } = request.json()?;
    if to == admin.user_id {
        return Err(Error::bad_request("you are already the super user"));
    }
    if !users::transfer_super(&app.db, &admin.user_id, &to).await? {
        return Err(not_found());
    }
    app.changed(Topic::Admins).await?;
    let (actor, from) = (admin.did.to_string(), admin.user_id);
    app.events.record(Event::UserSuperTransferred { actor, from, to: to.clone() });
    users::get(&app.db, &to).await?.map(Json).ok_or_else(not_found)
}

/// `DELETE /admin/users/{id}`: removes an admin user. The user, its keys and its browser sessions stop working at once,
/// on all hosts. It revokes the user's permissions, so the caller needs all of them.
pub async fn delete(app: Arc<App>, admin: Admin, request: Request) -> EmptyResult {
    let id = request.param("id");
    if id == admin.user_id {
        return Err(Error::forbidden("you can't delete yourself"));
    }
    let may_revoke_all = |user: &UserRow| {
        // A name that this version does not know permits nothing.
        let known =
            user.permissions.iter().map(String::as_str).filter(|name| Permission::parse(name).is_some());
        admin.require_held("revoke", known).map(drop)
    };
    let sessions = match users::delete(&app.db, id, app.clock.now(), may_revoke_all).await? {
        Deletion::Deleted(sessions) => sessions,
        Deletion::Refused(error) => return Err(error),
        Deletion::Super => return Err(Error::forbidden("the super user can't be deleted")),
        Deletion::Missing => return Err(not_found()),
    };
    app.changed(Topic::Admins).await?;
    for session in sessions {
        // The cookie is already invalid; this ends the session with the PDS that the login created.
        if let Err(error) = app.sessions.vault.end(&session).await {
            tracing::warn!(%error, session, "the PDS session of a deleted user could not be ended");
        }
    }
    app.events.record(Event::UserDeleted { actor: admin.did.to_string(), id: id.to_owned() });
    Ok(Empty)
}
