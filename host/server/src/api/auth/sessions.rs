//! `/auth/sessions`: what can write to the repo of the user who is logged in, and how to end it.

use std::sync::Arc;

use http::header::SET_COOKIE;
use schemars::JsonSchema;
use serde::Serialize;

use crate::access::WebUser;
use crate::api::answer::{Built, Empty, Json, JsonResult};
use crate::app::{App, Topic};
use belvedere_base::clock::Timestamp;
use belvedere_instance::events::Event;
use belvedere_protocol::atproto::Did;
use belvedere_storage::store::account_sessions::{self, AccountSessionRow};
use belvedere_storage::store::web_sessions::{self, BrowserRow};
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
    /// The browser, such as "Firefox on Linux", for `browser` only.
    device: Option<String>,
    /// The browser's address, when it was last used.
    address: Option<String>,
    created_at: Timestamp,
    /// The time at which the browser was last used, to the minute, or at which the tokens were renewed last.
    last_used_at: Timestamp,
    /// Null when it renews itself.
    expires_at: Option<Timestamp>,
    /// Whether it is the session of this browser.
    is_current: bool,
}

impl OwnSession {
    fn new(row: AccountSessionRow, current: &str) -> Self {
        Self {
            is_current: row.id == current,
            kind: kind_of(&row),
            id: row.id,
            name: row.name,
            client_uri: row.client_uri,
            client_id: row.client_id,
            scopes: row.scopes.split_ascii_whitespace().map(str::to_owned).collect(),
            pds: row.pds,
            device: row.device,
            address: row.address,
            created_at: row.created_at,
            last_used_at: row.browser_used_at.map_or(row.updated_at, |at| at.max(row.updated_at)),
            expires_at: row.expires_at.filter(|_| !row.refreshable),
        }
    }
}

fn kind_of(row: &AccountSessionRow) -> &'static str {
    if row.client_id.is_some() {
        "app"
    } else if row.is_linked_repo {
        "linked_repo"
    } else if row.is_service {
        "service"
    } else {
        "browser"
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
    let rows = account_sessions::list(&app.db, user.did.as_str()).await?;
    let row = rows.into_iter().find(|row| row.id == request.param("id"));
    let row = row.ok_or_else(|| {
        Error::not_found("you have no session with this id; GET /auth/sessions lists yours")
    })?;
    let (is_current, kind) = (row.id == user.session, kind_of(&row));
    end(&app, &user.did, &user.did, kind, [EndedSession { id: row.id, device: row.device }]).await?;
    let answer = Built::of(Empty);
    Ok(if is_current { answer.with(SET_COOKIE, app.access.web_sessions.removal_cookie()) } else { answer })
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct EndedSessions {
    /// Number of sessions that have ended.
    pub ended: usize,
}

/// `DELETE /auth/sessions`: ends the user's sessions in all other browsers.
pub async fn delete_others(app: Arc<App>, request: Request) -> JsonResult<EndedSessions> {
    let user = user(&app, &request).await?;
    let rows = web_sessions::of_user(&app.db, user.did.as_str(), app.clock.now()).await?;
    let others: Vec<_> =
        rows.into_iter().filter(|row| row.id != user.session).map(EndedSession::from).collect();
    let ended = others.len();
    end(&app, &user.did, &user.did, "browser", others).await?;
    Ok(Json(EndedSessions { ended }))
}

/// A session that is to end.
#[derive(Debug)]
pub struct EndedSession {
    pub id: String,
    pub device: Option<String>,
}

impl From<BrowserRow> for EndedSession {
    fn from(row: BrowserRow) -> Self {
        Self { id: row.id, device: row.device }
    }
}

/// Ends sessions of a user on all hosts at once, with the event streams that they opened, and those with the user's PDS.
///
/// # Errors
/// When the store fails.
pub async fn end(
    app: &App,
    actor: &Did,
    user: &Did,
    kind: &'static str,
    sessions: impl IntoIterator<Item = EndedSession>,
) -> Result<(), Error> {
    for EndedSession { id, device } in sessions {
        app.sessions.vault.end(&id).await?;
        let (actor, did) = (actor.to_string(), user.to_string());
        app.events.record(Event::SessionEnded { actor, did, id, kind, device });
    }
    app.changed(Topic::Admins).await
}

async fn user(app: &App, request: &Request) -> Result<WebUser, Error> {
    let user = app.access.web_sessions.user(request.method(), request.headers(), app.clock.now()).await?;
    user.ok_or_else(|| Error::unauthorized("not authenticated"))
}
