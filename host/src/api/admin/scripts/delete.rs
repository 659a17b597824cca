//! `DELETE /admin/scripts/{id}`: the built-in behaviour is back at once.

use std::sync::Arc;

use http::StatusCode;

use crate::access::Admin;
use crate::app::App;
use crate::app::Topic;
use crate::events::Event;
use crate::http::{Error, Request, Response, response};
use crate::store::scripts;

pub async fn handle(app: Arc<App>, admin: Admin, request: Request) -> Result<Response, Error> {
    let id = request.param("id");
    if !scripts::delete(&app.db, id).await? {
        return Err(Error::not_found("script not found"));
    }
    app.changed(Topic::Script(id.to_owned())).await?;
    app.events.record(Event::ScriptDeleted { actor: admin.did.to_string(), trigger: id.to_owned() });
    Ok(response::empty(StatusCode::NO_CONTENT))
}
