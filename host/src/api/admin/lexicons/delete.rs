//! `DELETE /admin/lexicons/{id}`: the method is gone at once; indexed records and scripts stay.

use std::sync::Arc;

use http::StatusCode;

use crate::access::Admin;
use crate::app::App;
use crate::app::Topic;
use crate::events::Event;
use crate::http::{Error, Request, Response, response};
use crate::store;

pub async fn handle(app: Arc<App>, admin: Admin, request: Request) -> Result<Response, Error> {
    let id = request.param("id");
    if !store::lexicons::delete(&app.db, id).await? {
        return Err(Error::not_found("lexicon not found"));
    }
    app.changed(Topic::Lexicons).await?;
    app.events.record(Event::LexiconDeleted { actor: admin.did.to_string(), nsid: id.to_owned() });
    Ok(response::empty(StatusCode::NO_CONTENT))
}
