//! `POST /admin/domains/{id}/primary`: the one before is it no more, in the same transaction. PUBLIC_URL's origin becomes
//! the primary again at the next start.

use std::sync::Arc;

use http::StatusCode;

use crate::access::Admin;
use crate::app::App;
use crate::events::Event;
use crate::http::{Error, Request, Response, response};
use crate::store::domains;

pub async fn handle(app: Arc<App>, admin: Admin, request: Request) -> Result<Response, Error> {
    let id = request.param("id");
    if !domains::set_primary(&app.db, id, app.clock.now()).await? {
        return Err(Error::not_found("domain not found"));
    }
    let url = domains::list(&app.db).await?.into_iter().find(|row| row.id == id);
    let url = url.map(|row| row.url).unwrap_or_default();
    app.events.record(Event::DomainPrimaryChanged { actor: admin.did.to_string(), url, id: id.to_owned() });
    Ok(response::empty(StatusCode::NO_CONTENT))
}
