//! `DELETE /admin/settings/logo`: 204, also when there is none.

use std::sync::Arc;

use http::StatusCode;

use crate::access::Admin;
use crate::app::App;
use crate::events::Event;
use crate::http::{Error, Request, Response, response};
use crate::settings::logo;
use crate::store::settings;

pub async fn handle(app: Arc<App>, admin: Admin, _request: Request) -> Result<Response, Error> {
    if settings::delete(&app.db, logo::KEY).await? {
        let (actor, key) = (admin.did.to_string(), logo::KEY.to_owned());
        app.events.record(Event::SettingDeleted { actor, key });
    }
    Ok(response::empty(StatusCode::NO_CONTENT))
}
