//! `PUT /admin/settings/{key}`: stores a value, which wins over the environment's.

use std::sync::Arc;

use http::StatusCode;
use serde::Deserialize;
use serde_json::json;

use crate::access::Admin;
use crate::app::App;
use crate::app::Topic;
use crate::events::Event;
use crate::http::{Error, Request, Response, response};
use crate::settings::check;
use crate::store::settings;

#[derive(Deserialize)]
struct Body {
    value: String,
}

pub async fn handle(app: Arc<App>, admin: Admin, request: Request) -> Result<Response, Error> {
    let (key, Body { value }) = (request.param("key").to_owned(), request.json()?);
    check(&key, &value).map_err(|refused| Error::bad_request(refused.to_string()))?;
    settings::set(&app.db, &key, &value, app.clock.now()).await?;
    app.changed(Topic::Settings).await?;
    app.events.record(Event::SettingUpdated {
        actor: admin.did.to_string(),
        key,
        detail: json!({ "value": value }),
    });
    Ok(response::empty(StatusCode::NO_CONTENT))
}
