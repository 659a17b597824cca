//! `/admin/linked-repos`: manages grants, by which owners of repos let the instance write to them.

pub mod invites;

use std::sync::Arc;

use http::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::access::{Admin, Sender};
use crate::api::answer::{Json, JsonResult};
use crate::api::body::or_default;
use crate::api::input::WithBody;
use crate::app::App;
use belvedere_base::clock::Timestamp;
use belvedere_instance::events::Event;
use belvedere_instance::oauth::{AuthorizationError, FlowError, FlowGoal, LinkedRepoGoal};
use belvedere_instance::repos::linked::{PENDING, scopes};
use belvedere_protocol::atproto::{Did, typed};
use belvedere_storage::store::StoreError;
use belvedere_storage::store::linked_repos::{self, GrantRow};
use belvedere_web::http::{Error, Request};

async fn grant(app: &App, id: &str) -> Result<GrantRow, Error> {
    let row = linked_repos::get(&app.db, id).await?;
    row.ok_or_else(|| Error::not_found("linked repo not found"))
}

/// Checks the names of the triggers that a grant is bound to.
///
/// # Errors
/// 400 for a name that is not a trigger.
fn check_scripts(scripts: &[String]) -> Result<(), Error> {
    match scripts.iter().find(|name| !belvedere_instance::repos::linked::is_trigger(name)) {
        Some(name) => Err(Error::bad_request(format!("scripts: {name:?} is not a trigger"))),
        None => Ok(()),
    }
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct LinkedRepo {
    id: String,
    did: Option<String>,
    handle: Option<String>,
    reason: Option<String>,
    scopes: String,
    scripts: Vec<String>,
    /// `pending`, `active` or `needs_reauth`.
    status: String,
    last_error: Option<String>,
    last_refreshed_at: Option<Timestamp>,
    authorized_at: Option<Timestamp>,
    created_by: String,
    created_at: Timestamp,
}

impl From<GrantRow> for LinkedRepo {
    fn from(row: GrantRow) -> Self {
        Self {
            id: row.id,
            did: row.did,
            handle: row.handle,
            reason: row.reason,
            scopes: row.scopes,
            scripts: row.scripts,
            status: row.status,
            last_error: row.last_error,
            last_refreshed_at: row.last_refreshed_at,
            authorized_at: row.authorized_at,
            created_by: row.created_by,
            created_at: row.created_at,
        }
    }
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct LinkedRepos {
    linked_repos: Vec<LinkedRepo>,
}

/// `GET /admin/linked-repos`: the repos to which their owners let the instance write, newest first.
pub async fn list(app: Arc<App>, _admin: Admin, _request: Request) -> JsonResult<LinkedRepos> {
    let rows = linked_repos::list(&app.db).await?;
    Ok(Json(LinkedRepos { linked_repos: rows.into_iter().map(LinkedRepo::from).collect() }))
}

/// Maximum characters of a reason: it is shown on a page.
const MAX_REASON: usize = 1000;

#[derive(Debug, Deserialize, JsonSchema)]
pub struct NewLinkedRepo {
    scopes: String,
    handle: Option<String>,
    reason: Option<String>,
    #[serde(default, deserialize_with = "or_default")]
    scripts: Vec<String>,
}

/// `POST /admin/linked-repos`: creates a grant to write to the repo of one account, or of the account whose owner
/// accepts the invite. The owner then authorizes it.
pub async fn create(app: Arc<App>, admin: Admin, request: WithBody<NewLinkedRepo>) -> JsonResult<LinkedRepo> {
    let body = request.json()?;
    let scopes = scopes(&body.scopes).map_err(Error::bad_request)?;
    check_scripts(&body.scripts)?;
    if body.reason.as_ref().is_some_and(|reason| reason.chars().count() > MAX_REASON) {
        return Err(Error::bad_request(format!("reason is longer than {MAX_REASON} characters")));
    }
    let (did, handle) = match body.handle.as_deref().map(typed).filter(|handle| !handle.is_empty()) {
        None => (None, None),
        Some(named) => {
            let did = app.core.resolver.account(&named).await;
            let did = did.map_err(|error| Error::bad_request(format!("handle: {error}")))?;
            let handle = if named.starts_with("did:") {
                app.core.resolver.resolve(&did).await.ok().and_then(|doc| doc.handle().map(str::to_owned))
            } else {
                Some(named.trim_start_matches('@').to_ascii_lowercase())
            };
            (Some(did.to_string()), handle)
        }
    };
    let grant = GrantRow {
        id: app.random.uuid(),
        did,
        handle,
        reason: body.reason,
        scopes,
        scripts: body.scripts,
        status: PENDING.to_owned(),
        last_error: None,
        session_id: None,
        last_refreshed_at: None,
        authorized_at: None,
        created_by: admin.did.to_string(),
        created_at: app.clock.now(),
    };
    linked_repos::create(&app.db, &grant).await.map_err(|error| match error {
        StoreError::Conflict(_) => Error::conflict("the account already has a linked repo"),
        other => Error::from(other),
    })?;
    let (actor, id) = (admin.did.to_string(), grant.id.clone());
    app.events.record(Event::LinkedRepoCreated {
        actor,
        id,
        did: grant.did.clone(),
        scopes: grant.scopes.clone(),
    });
    Ok(Json(grant.into()))
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct AuthorizeUrl {
    authorize_url: String,
}

/// `POST /admin/linked-repos/{id}/authorize`: begins the authorization in this browser. The answer has the URL where
/// the account's owner, who is the calling admin, authorizes the grant.
pub async fn authorize(app: Arc<App>, _admin: Admin, request: Request) -> JsonResult<AuthorizeUrl> {
    let grant = grant(&app, request.param("id")).await?;
    let did = grant.did.as_deref().and_then(|did| Did::try_from(did).ok());
    let did = did.ok_or_else(|| Error::bad_request("an open grant is authorized through an invite"))?;
    let goal = FlowGoal {
        return_to: format!("/dashboard/#/linked-repos/{}", grant.id),
        browser: None,
        grant: Some(LinkedRepoGoal { id: grant.id, invite: None }),
    };
    let origin = app.access.origins.of_host(request.headers());
    let sender = Sender::of(&app.access, &request);
    let begun = app.sessions.authorizations.begin(&did, &origin, &grant.scopes, goal, sender.tenant()).await;
    let url = begun.map_err(|error| {
        let refused = matches!(error, AuthorizationError::Flow(FlowError::Refused(..)));
        let status = if refused { StatusCode::BAD_REQUEST } else { StatusCode::BAD_GATEWAY };
        Error::new(status, error.to_string())
    })?;
    Ok(Json(AuthorizeUrl { authorize_url: url.into() }))
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct LinkedRepoPatch {
    scripts: Vec<String>,
}

/// `PATCH /admin/linked-repos/{id}`: sets which scripts may use a grant. Its scopes never change: the owner agreed to
/// them.
pub async fn update(
    app: Arc<App>,
    _admin: Admin,
    request: WithBody<LinkedRepoPatch>,
) -> JsonResult<LinkedRepo> {
    let LinkedRepoPatch { scripts } = request.json()?;
    check_scripts(&scripts)?;
    let id = request.param("id");
    linked_repos::set_scripts(&app.db, id, &scripts).await?;
    Ok(Json(grant(&app, id).await?.into()))
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct LinkedRepoDeleted {
    deleted: bool,
}

/// `DELETE /admin/linked-repos/{id}`: deletes the grant, its invites and its session. The authorization at the PDS
/// stays.
pub async fn delete(app: Arc<App>, admin: Admin, request: Request) -> JsonResult<LinkedRepoDeleted> {
    let id = request.param("id");
    if !linked_repos::delete(&app.db, id).await? {
        return Err(Error::not_found("linked repo not found"));
    }
    app.events.record(Event::LinkedRepoDeleted { actor: admin.did.to_string(), id: id.to_owned() });
    Ok(Json(LinkedRepoDeleted { deleted: true }))
}
