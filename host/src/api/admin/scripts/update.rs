//! `PATCH /admin/scripts/{id}`: a new body, another description, or both.

use std::sync::Arc;

use http::StatusCode;
use serde::Deserialize;

use super::body::{check_description, check_source, check_type, outbound_xrpcs};
use super::view::ScriptView;
use crate::access::Admin;
use crate::app::App;
use crate::app::Topic;
use crate::events::Event;
use crate::http::{Error, Request, Response, response};
use crate::store::Patch;
use crate::store::scripts::{self, ScriptPatch};
use crate::trigger::Trigger;

#[derive(Deserialize)]
struct Asked {
    body: Option<String>,
    script_type: Option<String>,
    #[serde(default)]
    description: Patch<String>,
}

pub async fn handle(app: Arc<App>, admin: Admin, request: Request) -> Result<Response, Error> {
    let id = request.param("id");
    let body: Asked = request.json()?;
    if body.body.is_none() && body.script_type.is_none() && body.description == Patch::Keep {
        return Err(Error::bad_request("nothing to change: send body or description"));
    }
    if let Some(script_type) = &body.script_type {
        if body.body.is_none() {
            return Err(Error::bad_request("script_type can only be sent together with body"));
        }
        check_type(script_type)?;
    }
    let description = match body.description {
        Patch::Set(text) => check_description(Some(text))?.map_or(Patch::Clear, Patch::Set),
        other => other,
    };
    let compiled = match &body.body {
        Some(source) => {
            let trigger = Trigger::parse(id).map_err(|_| Error::not_found("script not found"))?;
            Some(check_source(&app.engine, trigger, source).await?)
        }
        None => None,
    };

    let patch = ScriptPatch {
        script_type: body.script_type,
        body: body.body.map(|text| (text, compiled.as_ref().and_then(outbound_xrpcs))),
        description,
    };
    let row = scripts::patch(&app.db, id, &patch, app.clock.now())
        .await?
        .ok_or_else(|| Error::not_found("script not found"))?;
    app.changed(Topic::Script(id.to_owned())).await?;
    app.events.record(Event::ScriptUpdated {
        actor: admin.did.to_string(),
        trigger: id.to_owned(),
        script_type: row.script_type.clone(),
    });
    Ok(response::json(StatusCode::OK, &ScriptView::from(row)))
}
