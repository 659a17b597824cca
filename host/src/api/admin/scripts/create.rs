//! `POST /admin/scripts`: bind a script to a trigger, replacing the one that was there.

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
use crate::store::scripts::{self, NewScript};
use crate::trigger::Trigger;

#[derive(Deserialize)]
struct Asked {
    id: String,
    body: String,
    #[serde(default = "lua")]
    script_type: String,
    description: Option<String>,
}

fn lua() -> String {
    "lua".to_owned()
}

pub async fn handle(app: Arc<App>, admin: Admin, request: Request) -> Result<Response, Error> {
    let body: Asked = request.json()?;
    let trigger = Trigger::parse(&body.id).map_err(|e| Error::bad_request(e.to_string()))?;
    check_type(&body.script_type)?;
    let description = check_description(body.description)?;
    let compiled = check_source(&app.engine, trigger, &body.body).await?;

    let script = NewScript {
        id: body.id.clone(),
        script_type: body.script_type.clone(),
        outbound_xrpcs: outbound_xrpcs(&compiled),
        body: body.body,
        description,
    };
    let (row, created) = scripts::upsert(&app.db, &script, app.clock.now()).await?;
    app.changed(Topic::Script(body.id.clone())).await?;

    let (actor, trigger, script_type) = (admin.did.to_string(), body.id, body.script_type);
    app.events.record(if created {
        Event::ScriptCreated { actor, trigger, script_type }
    } else {
        Event::ScriptUpdated { actor, trigger, script_type }
    });
    let status = if created { StatusCode::CREATED } else { StatusCode::OK };
    Ok(response::json(status, &ScriptView::from(row)))
}
