//! `DELETE /admin/script-variables/{key}`: runs that begin from now on see nil.

use std::sync::Arc;

use http::StatusCode;

use crate::access::Admin;
use crate::app::App;
use crate::app::Topic;
use crate::events::Event;
use crate::http::{Error, Request, Response, response};
use crate::store::script_variables;

pub async fn handle(app: Arc<App>, admin: Admin, request: Request) -> Result<Response, Error> {
    let key = request.param("key").to_owned();
    if !script_variables::delete(&app.db, &key).await? {
        return Err(Error::not_found("script variable not found"));
    }
    app.changed(Topic::ScriptVariables).await?;
    app.events.record(Event::ScriptVariableDeleted { actor: admin.did.to_string(), key });
    Ok(response::empty(StatusCode::NO_CONTENT))
}
