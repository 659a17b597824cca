//! `DELETE /admin/users/{id}`: the user, its keys and its browser sessions stop working at once, on all hosts.

use std::sync::Arc;

use http::StatusCode;

use super::not_found;
use crate::access::Admin;
use crate::app::App;
use crate::app::Topic;
use crate::events::Event;
use crate::http::{Error, Request, Response, response};
use crate::store::users;

pub async fn handle(app: Arc<App>, admin: Admin, request: Request) -> Result<Response, Error> {
    let id = request.param("id");
    if id == admin.user_id {
        return Err(Error::forbidden("you can't delete yourself"));
    }
    let Some(sessions) = users::delete(&app.db, id, app.clock.now()).await? else {
        return Err(match users::get(&app.db, id).await? {
            Some(_) => Error::forbidden("the super user can't be deleted"),
            None => not_found(),
        });
    };
    app.changed(Topic::Admins).await?;
    for session in sessions {
        // The cookie is worth nothing already; this ends what the login gave us at the PDS.
        if let Err(error) = app.vault.end(&session).await {
            tracing::warn!(%error, session, "the PDS session of a deleted user is left to run out");
        }
    }
    app.events.record(Event::UserDeleted { actor: admin.did.to_string(), id: id.to_owned() });
    Ok(response::empty(StatusCode::NO_CONTENT))
}
