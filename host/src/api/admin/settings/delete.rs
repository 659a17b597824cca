//! `DELETE /admin/settings/{key}`: the environment's value counts again. 404 when none is stored.

use std::sync::Arc;

use http::StatusCode;

use crate::access::Admin;
use crate::app::App;
use crate::app::Topic;
use crate::events::Event;
use crate::http::{Error, Request, Response, response};
use crate::store::settings;

pub async fn handle(app: Arc<App>, admin: Admin, request: Request) -> Result<Response, Error> {
    let key = request.param("key").to_owned();
    if !settings::delete(&app.db, &key).await? {
        return Err(Error::not_found("setting not found"));
    }
    app.changed(Topic::Settings).await?;
    app.events.record(Event::SettingDeleted { actor: admin.did.to_string(), key });
    Ok(response::empty(StatusCode::NO_CONTENT))
}
