//! `GET /auth/me`: the user who is logged in with this browser, and what it may do.

use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;

use crate::access::{Permission, PermissionSet};
use crate::api::answer::{Json, JsonResult};
use crate::app::App;
use belvedere_protocol::atproto::Did;
use belvedere_web::http::{Error, Request};

/// Maximum time of the look-up of the handle: the page waits for it, and can do without it.
const HANDLE_TIME: Duration = Duration::from_secs(2);

#[derive(Debug, Serialize, JsonSchema)]
pub struct Me {
    did: Did,
    is_admin: bool,
    /// The handle in the DID document, not verified. Null when the document can't be read in time.
    handle: Option<String>,
    /// Null for an account that is not an admin user, and before the first request to the admin API has made it one.
    user_id: Option<String>,
    is_super: bool,
    permissions: Vec<&'static str>,
}

pub async fn handle(app: Arc<App>, request: Request) -> JsonResult<Me> {
    let user = app.access.web_sessions.user(request.method(), request.headers(), app.clock.now()).await?;
    let did = user.ok_or_else(|| Error::unauthorized("not authenticated"))?.did;
    let admin = app.access.users.in_person(&app.access, &did).await?;
    // As long as there are no users, the first one to log in becomes the super user.
    let is_first = admin.is_none() && app.access.users.may_log_in(&app.access, &did).await?;
    let is_super = is_first || admin.as_ref().is_some_and(|admin| admin.is_super);
    let permissions = match &admin {
        _ if is_super => PermissionSet::all(),
        Some(admin) => admin.permissions,
        None => PermissionSet::EMPTY,
    };
    let answer = Me {
        handle: handle_of(&app, &did).await,
        is_admin: is_first || admin.is_some(),
        user_id: admin.map(|admin| admin.user_id),
        is_super,
        permissions: permissions.iter().map(Permission::as_str).collect(),
        did,
    };
    Ok(Json(answer))
}

async fn handle_of(app: &App, did: &Did) -> Option<String> {
    let resolved = tokio::time::timeout(HANDLE_TIME, app.core.resolver.resolve(did)).await.ok()?;
    resolved.ok()?.handle().map(str::to_owned)
}
