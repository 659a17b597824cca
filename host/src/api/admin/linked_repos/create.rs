//! `POST /admin/linked-repos`: ask for the right to write to a repo: of one account, or of whoever gets the invite.

use std::sync::Arc;

use http::StatusCode;
use serde::Deserialize;

use super::check_scripts;
use super::view::GrantView;
use crate::access::Admin;
use crate::app::App;
use crate::events::Event;
use crate::http::{Error, Request, Response, response};
use crate::repos::linked::{PENDING, scopes};
use crate::store::StoreError;
use crate::store::linked_repos::{self, GrantRow};

/// Characters of a reason: it is read on a page.
const MAX_REASON: usize = 1000;

#[derive(Deserialize)]
struct Body {
    scopes: String,
    handle: Option<String>,
    reason: Option<String>,
    #[serde(default)]
    scripts: Vec<String>,
}

pub async fn handle(app: Arc<App>, admin: Admin, request: Request) -> Result<Response, Error> {
    let body: Body = request.json()?;
    let scopes = scopes(&body.scopes).map_err(Error::bad_request)?;
    check_scripts(&body.scripts)?;
    if body.reason.as_ref().is_some_and(|reason| reason.chars().count() > MAX_REASON) {
        return Err(Error::bad_request(format!("reason is longer than {MAX_REASON} characters")));
    }
    let (did, handle) = match body.handle.as_deref().map(str::trim).filter(|handle| !handle.is_empty()) {
        None => (None, None),
        Some(named) => {
            let did = app.resolver.account(named).await;
            let did = did.map_err(|error| Error::bad_request(format!("handle: {error}")))?;
            let handle = if named.starts_with("did:") {
                app.resolver.resolve(&did).await.ok().and_then(|doc| doc.handle().map(str::to_owned))
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
        StoreError::Conflict(_) => Error::conflict("the account has a linked repo already"),
        other => Error::from(other),
    })?;
    let (actor, id) = (admin.did.to_string(), grant.id.clone());
    app.events.record(Event::LinkedRepoCreated {
        actor,
        id,
        did: grant.did.clone(),
        scopes: grant.scopes.clone(),
    });
    Ok(response::json(StatusCode::OK, &GrantView::from(grant)))
}
