//! `/admin/users/{id}/sessions`: the browsers with which an admin user is logged in to the dashboard.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;

use super::not_found;
use crate::access::Admin;
use crate::access::admin::Via;
use crate::api::answer::{Empty, EmptyResult, Json, JsonResult};
use crate::api::auth::sessions::{EndedSession, EndedSessions, end};
use crate::app::App;
use belvedere_base::clock::Timestamp;
use belvedere_protocol::atproto::Did;
use belvedere_storage::store::StoreError;
use belvedere_storage::store::users;
use belvedere_storage::store::web_sessions::{self, BrowserRow};
use belvedere_web::http::{Error, Request};

#[derive(Debug, Serialize, JsonSchema)]
pub struct UserSessions {
    sessions: Vec<UserSession>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct UserSession {
    id: String,
    /// The browser, such as "Firefox on Linux".
    device: Option<String>,
    /// Its address, when it was last used.
    address: Option<String>,
    created_at: Timestamp,
    /// To the minute. Null before the first use.
    last_used_at: Option<Timestamp>,
    expires_at: Timestamp,
    /// Whether it is the session of this request.
    is_current: bool,
}

impl UserSession {
    fn new(row: BrowserRow, admin: &Admin) -> Self {
        Self {
            is_current: is_current(admin, &row.id),
            id: row.id,
            device: row.device,
            address: row.address,
            created_at: row.created_at,
            last_used_at: row.last_used_at,
            expires_at: row.expires_at,
        }
    }
}

fn is_current(admin: &Admin, session: &str) -> bool {
    matches!(&admin.via, Via::Session { id } if id == session)
}

/// `GET /admin/users/{id}/sessions`: the browsers with which a user is logged in, the latest used first.
pub async fn list(app: Arc<App>, admin: Admin, request: Request) -> JsonResult<UserSessions> {
    let user = users::get(&app.db, request.param("id")).await?.ok_or_else(not_found)?;
    let rows = web_sessions::of_user(&app.db, &user.did, app.clock.now()).await?;
    Ok(Json(UserSessions { sessions: rows.into_iter().map(|row| UserSession::new(row, &admin)).collect() }))
}

/// `DELETE /admin/users/{id}/sessions/{session_id}`: logs a user out of one browser.
pub async fn delete(app: Arc<App>, admin: Admin, request: Request) -> EmptyResult {
    let (user, rows) = to_end(&app, &admin, &request).await?;
    let row = rows.into_iter().find(|row| row.id == request.param("session_id"));
    let row = row.ok_or_else(|| {
        Error::not_found("the user has no session with this id; GET /admin/users/{id}/sessions lists them")
    })?;
    end(&app, &admin.did, &user, "browser", [EndedSession::from(row)]).await?;
    Ok(Empty)
}

/// `DELETE /admin/users/{id}/sessions`: logs a user out of all browsers, except that of this request.
pub async fn delete_all(app: Arc<App>, admin: Admin, request: Request) -> JsonResult<EndedSessions> {
    let (user, rows) = to_end(&app, &admin, &request).await?;
    let others: Vec<_> =
        rows.into_iter().filter(|row| !is_current(&admin, &row.id)).map(EndedSession::from).collect();
    let ended = others.len();
    end(&app, &admin.did, &user, "browser", others).await?;
    Ok(Json(EndedSessions { ended }))
}

/// The user whose sessions the caller may end, and these.
async fn to_end(app: &App, admin: &Admin, request: &Request) -> Result<(Did, Vec<BrowserRow>), Error> {
    let user = users::get(&app.db, request.param("id")).await?.ok_or_else(not_found)?;
    if user.is_super && user.id != admin.user_id {
        return Err(Error::forbidden("only the super user ends sessions of the super user"));
    }
    let did = Did::try_from(user.did.as_str())
        .map_err(|_| StoreError::Corrupt(format!("the DID of user {}", user.id)))?;
    let rows = web_sessions::of_user(&app.db, did.as_str(), app.clock.now()).await?;
    Ok((did, rows))
}
