//! `/auth/linked-repo/*`: lets the owner of a repo follow an invite, and links the repo.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use url::form_urlencoded;

use crate::access::Sender;
use crate::api::answer::{Built, Json, JsonResult, Redirect};
use crate::api::auth::login::begin_error;
use crate::api::auth::redirect;
use crate::api::auth::session::store_session;
use crate::api::input::WithQuery;
use crate::api::page::{self, Link};
use crate::app::App;
use belvedere_base::clock::Timestamp;
use belvedere_instance::events::Event;
use belvedere_instance::oauth::{CompletedFlow, FlowGoal, LinkedRepoGoal};
use belvedere_protocol::atproto::{Did, typed};
use belvedere_protocol::crypto::sha256_hex;
use belvedere_storage::store::StoreError;
use belvedere_storage::store::linked_repos::{self, GrantRow, InviteRow};
use belvedere_web::http::{Error, Request};

pub(in crate::api) fn invalid_link() -> Error {
    Error::bad_request("the link has been used, was revoked, or has expired: ask its sender for another one")
}

/// The invite with this token, and its grant, if the invite is still valid.
pub(in crate::api) async fn find_invite(
    app: &App,
    token: &str,
) -> Result<Option<(InviteRow, GrantRow)>, Error> {
    let id = sha256_hex(token.as_bytes());
    let invite = linked_repos::get_invite(&app.db, &id, app.clock.now()).await?;
    let Some(invite) = invite else { return Ok(None) };
    let grant = linked_repos::get(&app.db, &invite.grant_id).await?;
    Ok(grant.map(|grant| (invite, grant)))
}

/// Links the account that completed the authorization; returns the `status` for `/link/result`.
pub(super) async fn link(
    app: &App,
    completed: &CompletedFlow,
    goal: &LinkedRepoGoal,
) -> Result<&'static str, Error> {
    let Some(grant) = linked_repos::get(&app.db, &goal.id).await? else { return Ok("gone") };
    if let Some(invite) = &goal.invite {
        let valid = linked_repos::get_invite(&app.db, invite, app.clock.now()).await?;
        if valid.is_none() {
            return Ok("expired");
        }
    }
    let did = completed.did.as_str();
    if grant.did.as_deref().is_some_and(|pinned| pinned != did) {
        return Ok("mismatch");
    }
    let other = linked_repos::of_account(&app.db, did).await?;
    if other.is_some_and(|other| other.id != grant.id) {
        return Ok("already_linked");
    }
    // With fewer scopes, a script would fail later, without the owner there to grant them.
    let granted: Vec<&str> = completed.tokens.scope.split(' ').collect();
    if !grant.scopes.split(' ').all(|requested| granted.contains(&requested)) {
        tracing::info!(grant = grant.id, "the authorization server granted fewer scopes than requested");
        return Ok("failed");
    }
    let session = store_session(app, completed).await?;
    match linked_repos::authorize(&app.db, &grant.id, did, &session, app.clock.now()).await {
        Ok(true) => {}
        refused => {
            app.sessions.vault.end(&session).await?;
            return match refused {
                Ok(_) => Ok("mismatch"),
                Err(StoreError::Conflict(_)) => Ok("already_linked"),
                Err(error) => Err(Error::from(error)),
            };
        }
    }
    if let Some(old) = &grant.session_id {
        app.sessions.vault.end(old).await?;
    }
    app.events.record(Event::LinkedRepoAuthorized { did: did.to_owned(), id: grant.id });
    Ok("success")
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct LinkQuery {
    #[schemars(required)]
    token: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum LinkInfo {
    Known {
        valid: bool,
        app_name: Option<String>,
        logo_url: Option<String>,
        scopes: Vec<String>,
        reason: Option<String>,
        pinned_identifier: Option<String>,
        expires_at: Timestamp,
    },
    /// The link has been used, was revoked, or has expired.
    Unknown { valid: bool },
}

/// `GET /auth/linked-repo/info`: describes a link to authorize a grant.
pub async fn info(app: Arc<App>, request: WithQuery<LinkQuery>) -> JsonResult<LinkInfo> {
    let LinkQuery { token } = request.parameters()?;
    let Some((invite, grant)) = find_invite(&app, &token.unwrap_or_default()).await? else {
        return Ok(Json(LinkInfo::Unknown { valid: false }));
    };
    Ok(Json(LinkInfo::Known {
        valid: true,
        app_name: app.settings.get("app_name"),
        logo_url: app.settings.logo_url(&app.access.origins.of_host(request.headers())),
        scopes: grant.scopes.split(' ').map(str::to_owned).collect(),
        reason: grant.reason,
        pinned_identifier: grant.handle.or(grant.did),
        expires_at: invite.expires_at,
    }))
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct LinkStart {
    #[schemars(required)]
    token: Option<String>,
    handle: Option<String>,
}

/// `GET /auth/linked-repo/start`: begins that authorization. Redirects to the page that shows what is requested, or
/// with a handle to that account's authorization server. A handle that does not work leads back to that page.
pub async fn start(app: Arc<App>, request: WithQuery<LinkStart>) -> Result<Built<Redirect>, Error> {
    let LinkStart { token, handle } = request.parameters()?;
    let token = token.unwrap_or_default();
    let (invite, grant) = find_invite(&app, &token).await?.ok_or_else(invalid_link)?;
    let handle = handle.filter(|handle| !typed(handle).is_empty());
    let query = form_urlencoded::Serializer::new(String::new()).append_pair("token", &token).finish();
    let first_page = format!("/link/start?{query}");
    let Some(handle) = handle else { return Ok(redirect(&first_page)) };
    match begin(&app, &request, &handle, invite, grant).await {
        Err(error) if error.cause.is_none() && !page::wants_json(request.headers()) => {
            page::of_error(error, &request.id, Some(Link { to: first_page, text: "Go back and try again" }))
                .map(Built::from)
        }
        answer => answer,
    }
}

/// Begins the authorization at the server of the account that `handle` names.
async fn begin(
    app: &App,
    request: &Request,
    handle: &str,
    invite: InviteRow,
    grant: GrantRow,
) -> Result<Built<Redirect>, Error> {
    let named = app.core.resolver.account(handle).await?;
    let did = match grant.did.as_deref().map(Did::try_from) {
        Some(Ok(pinned)) if pinned != named => {
            return Err(Error::bad_request("this link was issued for a different account"));
        }
        _ => named,
    };
    let goal = FlowGoal {
        return_to: String::new(),
        browser: None,
        grant: Some(LinkedRepoGoal { id: grant.id, invite: Some(invite.id) }),
    };
    let origin = app.access.origins.of_host(request.headers());
    let sender = Sender::of(&app.access, request);
    let url = app.sessions.authorizations.begin(&did, &origin, &grant.scopes, goal, sender.tenant()).await;
    let url = url.map_err(begin_error)?;
    Ok(redirect(url.as_str()))
}
