//! `DELETE /admin/api-keys/{id}`: the key stops working at once; its row stays as a record.

use std::sync::Arc;

use http::StatusCode;

use crate::access::Admin;
use crate::app::App;
use crate::app::Topic;
use crate::events::Event;
use crate::http::{Error, Request, Response, response};
use crate::store::api_keys;

pub async fn handle(app: Arc<App>, admin: Admin, request: Request) -> Result<Response, Error> {
    let id = request.param("id");
    if !api_keys::revoke(&app.db, id, &admin.user_id, app.clock.now()).await? {
        return Err(Error::not_found("api key not found"));
    }
    app.changed(Topic::Admins).await?;
    app.events.record(Event::ApiKeyRevoked { actor: admin.did.to_string(), id: id.to_owned() });
    Ok(response::empty(StatusCode::NO_CONTENT))
}
