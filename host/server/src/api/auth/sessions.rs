//! `/auth/sessions`: what can write to the repo of the user who is logged in, and how to end it.

use std::sync::Arc;

use http::header::SET_COOKIE;
use schemars::JsonSchema;
use serde::Serialize;

use crate::access::WebUser;
use crate::api::answer::{Built, Empty, Json, JsonResult};
use crate::app::App;
use belvedere_base::clock::Timestamp;
use belvedere_storage::store::account_sessions::{self, AccountSessionRow};
use belvedere_web::http::{Error, Request};

#[derive(Debug, Serialize, JsonSchema)]
pub struct OwnSessions {
    sessions: Vec<OwnSession>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct OwnSession {
    id: String,
    /// `app`, `browser`, `linked_repo` or `service`.
    #[schemars(extend("enum" = ["app", "browser", "linked_repo", "service"]))]
    kind: &'static str,
    /// The name of the API client, for `app` only.
    name: Option<String>,
    client_uri: Option<String>,
    client_id: Option<String>,
    scopes: Vec<String>,
    pds: String,
    created_at: Timestamp,
    /// The time at which its tokens were renewed last.
    last_used_at: Timestamp,
    /// Null when it renews itself.
    expires_at: Option<Timestamp>,
    /// Whether it is the session of this browser.
    is_current: bool,
}

impl OwnSession {
    fn new(row: AccountSessionRow, current: &str) -> Self {
        let kind = if row.client_id.is_some() {
            "app"
        } else if row.is_linked_repo {
            "linked_repo"
        } else if row.is_service {
            "service"
        } else {
            "browser"
        };
        Self {
            is_current: row.id == current,
            id: row.id,
            kind,
            name: row.name,
            client_uri: row.client_uri,
            client_id: row.client_id,
            scopes: row.scopes.split_ascii_whitespace().map(str::to_owned).collect(),
            pds: row.pds,
            created_at: row.created_at,
            last_used_at: row.updated_at,
            expires_at: row.expires_at.filter(|_| !row.refreshable),
        }
    }
}

/// `GET /auth/sessions`: what can write to the repo of the user who is logged in, the latest first.
pub async fn list(app: Arc<App>, request: Request) -> JsonResult<OwnSessions> {
    let user = user(&app, &request).await?;
    let rows = account_sessions::list(&app.db, user.did.as_str()).await?;
    let sessions = rows.into_iter().map(|row| OwnSession::new(row, &user.session)).collect();
    Ok(Json(OwnSessions { sessions }))
}

/// `DELETE /auth/sessions/{id}`: ends one of these sessions, also at the user's PDS. That of this browser logs out.
pub async fn delete(app: Arc<App>, request: Request) -> Result<Built<Empty>, Error> {
    let user = user(&app, &request).await?;
    let id = request.param("id");
    if !account_sessions::is_of(&app.db, id, user.did.as_str()).await? {
        return Err(Error::not_found("you have no session with this id; GET /auth/sessions lists yours"));
    }
    app.sessions.vault.end(id).await?;
    let answer = Built::of(Empty);
    Ok(if id == user.session {
        answer.with(SET_COOKIE, app.access.web_sessions.removal_cookie())
    } else {
        answer
    })
}

async fn user(app: &App, request: &Request) -> Result<WebUser, Error> {
    let user = app.access.web_sessions.user(request.method(), request.headers(), app.clock.now()).await?;
    user.ok_or_else(|| Error::unauthorized("not authenticated"))
}
