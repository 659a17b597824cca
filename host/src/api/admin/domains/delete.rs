//! `DELETE /admin/domains/{id}`

use std::sync::Arc;

use http::StatusCode;

use crate::access::Admin;
use crate::app::App;
use crate::app::Topic;
use crate::events::Event;
use crate::http::{Error, Request, Response, response};
use crate::store::domains;

pub async fn handle(app: Arc<App>, admin: Admin, request: Request) -> Result<Response, Error> {
    let id = request.param("id");
    let url = domains::list(&app.db).await?.into_iter().find(|row| row.id == id);
    let url = url.ok_or_else(|| Error::not_found("domain not found"))?.url;
    match domains::delete(&app.db, id).await? {
        None => return Err(Error::not_found("domain not found")),
        Some(false) => return Err(Error::bad_request("the primary domain can't be deleted")),
        Some(true) => {}
    }
    app.changed(Topic::Domains).await?;
    app.events.record(Event::DomainDeleted { actor: admin.did.to_string(), url, id: id.to_owned() });
    Ok(response::empty(StatusCode::NO_CONTENT))
}
