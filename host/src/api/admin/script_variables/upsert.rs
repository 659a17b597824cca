//! `POST /admin/script-variables`: set a variable, replacing what it was.

use std::sync::Arc;

use http::StatusCode;
use serde::Deserialize;

use crate::access::Admin;
use crate::app::App;
use crate::app::Topic;
use crate::events::Event;
use crate::http::{Error, Request, Response, response};
use crate::scripts::variables::{self, MAX_COUNT, MAX_KEY, MAX_VALUE};
use crate::store::script_variables;

#[derive(Deserialize)]
struct Asked {
    key: String,
    value: String,
}

pub async fn handle(app: Arc<App>, admin: Admin, request: Request) -> Result<Response, Error> {
    let Asked { key, value } = request.json()?;
    check(&key, &value)?;
    let sealed = variables::seal(&app.sealing, &app.random, &key, &value);
    let now = app.clock.now();
    if !script_variables::upsert(&app.db, &key, &sealed, MAX_COUNT, now).await? {
        return Err(Error::bad_request(format!("there are {MAX_COUNT} variables already; delete some")));
    }
    app.changed(Topic::ScriptVariables).await?;
    app.events.record(Event::ScriptVariableUpserted { actor: admin.did.to_string(), key });
    Ok(response::empty(StatusCode::NO_CONTENT))
}

fn check(key: &str, value: &str) -> Result<(), Error> {
    if key.trim().is_empty() || key.len() > MAX_KEY || key.chars().any(char::is_control) {
        return Err(Error::bad_request(format!("key must be 1 to {MAX_KEY} bytes of text on one line")));
    }
    if value.len() > MAX_VALUE {
        return Err(Error::bad_request(format!("value is longer than {MAX_VALUE} bytes")));
    }
    Ok(())
}
