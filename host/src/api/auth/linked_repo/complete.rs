//! The end of an authorization: the grant gets its session, or the page says why not.

use crate::api::auth::callback::keep;
use crate::app::App;
use crate::events::Event;
use crate::http::Error;
use crate::oauth::{Completed, GrantGoal};
use crate::store::StoreError;
use crate::store::linked_repos;

/// What `/link/result` is told.
pub(in crate::api::auth) async fn link(
    app: &App,
    completed: &Completed,
    goal: &GrantGoal,
) -> Result<&'static str, Error> {
    let Some(grant) = linked_repos::get(&app.db, &goal.id).await? else { return Ok("gone") };
    if let Some(invite) = &goal.invite {
        let good = linked_repos::get_invite(&app.db, invite, app.clock.now()).await?;
        if good.is_none() {
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
    // Less than was asked for would fail later, in some script, with nobody there to ask.
    let given: Vec<&str> = completed.tokens.scope.split(' ').collect();
    if !grant.scopes.split(' ').all(|asked| given.contains(&asked)) {
        tracing::info!(grant = grant.id, "the authorization server gave less than was asked for");
        return Ok("failed");
    }
    let session = keep(app, completed).await?;
    match linked_repos::authorize(&app.db, &grant.id, did, &session, app.clock.now()).await {
        Ok(true) => {}
        refused => {
            app.vault.end(&session).await?;
            return match refused {
                Ok(_) => Ok("mismatch"),
                Err(StoreError::Conflict(_)) => Ok("already_linked"),
                Err(error) => Err(Error::from(error)),
            };
        }
    }
    if let Some(old) = &grant.session_id {
        app.vault.end(old).await?;
    }
    app.events.record(Event::LinkedRepoAuthorized { did: did.to_owned(), id: grant.id });
    Ok("success")
}
