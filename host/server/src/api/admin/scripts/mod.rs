//! `/admin/scripts`: stores, lists, changes and deletes scripts and views.

pub(super) mod body;
pub mod check;
mod diagnostics;
pub mod dry_run;
pub(super) mod libraries;
pub mod profile;
pub mod recording;
pub mod reindex;
pub mod replay;
pub mod revisions;
pub mod rollout;
pub(super) mod setup;
pub mod types;
pub mod view;

use std::sync::Arc;

use futures_util::future::Either;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use self::body::{check_description, check_source, check_trigger, check_type, type_of, unusual};
use self::view::{second, to_run};

use crate::access::Admin;
use crate::api::answer::{Empty, EmptyResult, Json, JsonResult};
use crate::api::input::{WithBody, WithQuery};
use crate::app::{App, Topic};
use belvedere_instance::events::Event;
use belvedere_protocol::trigger::{Trigger, TriggerKind};
use belvedere_scripting::views::{self, View};
use belvedere_storage::store::Patch;
use belvedere_storage::store::scripts::{self, NewScript, ScriptName, ScriptPatch, ScriptRow};
use belvedere_web::http::{Error, Request};

/// A script that was stored, and what its author should know.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SavedScript {
    #[serde(flatten)]
    script: ScriptRow,
    /// Whether it replaces the server's own answer to a method, or can't run yet.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
}

impl SavedScript {
    fn of(app: &App, trigger: &Trigger, row: ScriptRow) -> Self {
        let unusual = unusual(&app.registry.snapshot(), trigger);
        let warnings = unusual.map(|(_, message)| message).into_iter().collect();
        Self { script: row, warnings }
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct ScriptQuery {
    suffix: Option<String>,
}

/// `GET /admin/scripts`: the scripts, by id; with `suffix` those bound to one NSID or job type.
pub async fn list(
    app: Arc<App>,
    _admin: Admin,
    request: WithQuery<ScriptQuery>,
) -> JsonResult<Vec<ScriptRow>> {
    let suffix = request.parameters()?.suffix.filter(|s| !s.is_empty());
    Ok(Json(scripts::list(&app.db, suffix.as_deref()).await?))
}

/// A script without its body.
#[derive(Debug, Serialize, JsonSchema)]
pub struct NamedScript {
    #[serde(flatten)]
    name: ScriptName,
    /// The libraries that its body names in `require("…")`.
    requires: Vec<String>,
}

/// `GET /admin/scripts/names`: the scripts without their bodies, by id.
pub async fn names(app: Arc<App>, _admin: Admin, _request: Request) -> JsonResult<Vec<NamedScript>> {
    let names = scripts::names(&app.db).await?;
    let loaded = app.scripting.runtime.scripts.all();
    let named = names.into_iter().map(|name| {
        let required = loaded.get(&name.id).into_iter().flat_map(|script| script.required());
        NamedScript { requires: required.map(str::to_owned).collect(), name }
    });
    Ok(Json(named.collect()))
}

/// `GET /admin/scripts/{id}`: a script.
pub async fn get(app: Arc<App>, _admin: Admin, request: Request) -> JsonResult<ScriptRow> {
    let row = scripts::get(&app.db, request.param("id")).await?;
    row.map(Json).ok_or_else(|| Error::not_found("script not found"))
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct NewScriptBody {
    id: String,
    body: String,
    /// `lua`, or `view` for a view: the default is the one of the trigger.
    script_type: Option<String>,
    description: Option<String>,
    /// The revision that it replaces, 0 for a script that is new: 409 if there is another. Absent: it replaces whichever there is.
    revision: Option<u32>,
}

/// `POST /admin/scripts`: binds a script to a trigger, replacing the previous one.
pub async fn create(
    app: Arc<App>,
    admin: Admin,
    request: WithBody<NewScriptBody>,
) -> Result<Either<Json<SavedScript, 201>, Json<SavedScript>>, Error> {
    let body = request.json()?;
    let trigger = Trigger::parse(&body.id).map_err(|e| Error::bad_request(e.to_string()))?;
    let script_type = body.script_type.unwrap_or_else(|| type_of(&trigger).to_owned());
    check_type(&trigger, &script_type)?;
    check_trigger(&app, &trigger)?;
    let description = check_description(body.description)?;
    let CheckedBody { outbound_xrpcs, view } = check_body(&app, &trigger, &body.body).await?;
    let _setup = setup::run(&app, &trigger, &body.body, body.revision).await?;

    let script = NewScript {
        id: body.id.clone(),
        script_type: script_type.clone(),
        outbound_xrpcs,
        body: body.body,
        description,
        saved_by: Some(admin.did.to_string()),
        based_on: body.revision.map(i64::from),
        unless: trigger.counterpart().map(|other| other.id().to_owned()),
    };
    let (row, created) =
        scripts::upsert(&app.db, &script, app.clock.now()).await.map_err(|error| second(error, &trigger))?;
    app.changed(Topic::Script(body.id.clone())).await?;

    let (actor, id) = (admin.did.to_string(), body.id);
    app.events.record(if created {
        Event::ScriptCreated { actor, trigger: id, script_type }
    } else {
        Event::ScriptUpdated { actor, trigger: id, script_type }
    });
    request_indexes(&app, view.as_ref()).await;
    let saved = SavedScript::of(&app, &trigger, row);
    Ok(if created { Either::Left(Json(saved)) } else { Either::Right(Json(saved)) })
}

/// The body of a script or of a view, checked.
#[derive(Default)]
struct CheckedBody {
    /// The methods that a script names.
    outbound_xrpcs: Option<Vec<String>>,
    view: Option<View>,
}

async fn check_body(app: &App, trigger: &Trigger, body: &str) -> Result<CheckedBody, Error> {
    if trigger.kind() == TriggerKind::View {
        return Ok(CheckedBody { outbound_xrpcs: None, view: Some(to_run(app, trigger, body).await?) });
    }
    let methods = check_source(app, trigger.clone(), body).await?;
    Ok(CheckedBody { outbound_xrpcs: Some(methods).filter(|methods| !methods.is_empty()), view: None })
}

/// Asks for the indexes of a view that is stored: one that was refused needs none. A failure does not undo what is stored.
pub(super) async fn request_indexes(app: &App, view: Option<&View>) {
    if let Some(view) = view
        && let Err(error) = views::request_indexes(&app.db, view).await
    {
        tracing::warn!(%error, "the indexes of a view could not be asked for: save it again");
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct ScriptChange {
    body: Option<String>,
    script_type: Option<String>,
    #[serde(default)]
    description: Patch<String>,
    /// The revision that it changes: 409 if there is another. Absent: it changes whichever there is.
    revision: Option<u32>,
}

/// `PATCH /admin/scripts/{id}`: changes a script: a new body, another description, or both.
pub async fn update(app: Arc<App>, admin: Admin, request: WithBody<ScriptChange>) -> JsonResult<SavedScript> {
    let id = request.param("id");
    let body = request.json()?;
    if body.body.is_none() && body.script_type.is_none() && body.description == Patch::Keep {
        return Err(Error::bad_request("nothing to change: send body or description"));
    }
    if body.script_type.is_some() && body.body.is_none() {
        return Err(Error::bad_request("script_type can only be sent together with body"));
    }
    let description = match body.description {
        Patch::Set(text) => check_description(Some(text))?.map_or(Patch::Clear, Patch::Set),
        other => other,
    };
    let trigger = Trigger::parse(id).map_err(|_| Error::not_found("script not found"))?;
    if let Some(script_type) = &body.script_type {
        check_type(&trigger, script_type)?;
    }
    let (checked, _setup) = match &body.body {
        Some(source) => {
            // A setup runs before it is stored, so what is to be changed must be there.
            let stored = scripts::get(&app.db, id).await?;
            stored.ok_or_else(|| Error::not_found("script not found"))?;
            check_trigger(&app, &trigger)?;
            let checked = check_body(&app, &trigger, source).await?;
            (checked, setup::run(&app, &trigger, source, body.revision).await?)
        }
        None => (CheckedBody::default(), None),
    };

    let patch = ScriptPatch {
        script_type: body.script_type,
        body: body.body.map(|source| (source, checked.outbound_xrpcs)),
        description,
        based_on: body.revision.map(i64::from),
        saved_by: Some(admin.did.to_string()),
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
    request_indexes(&app, checked.view.as_ref()).await;
    Ok(Json(SavedScript::of(&app, &trigger, row)))
}

/// `DELETE /admin/scripts/{id}`: deletes a script; the built-in behaviour applies again at once. 409 for a library that others require.
pub async fn delete(app: Arc<App>, admin: Admin, request: Request) -> EmptyResult {
    let id = request.param("id");
    libraries::check_unused(&app, id).await?;
    if !scripts::delete(&app.db, id, Some(admin.did.as_str()), app.clock.now()).await? {
        return Err(Error::not_found("script not found"));
    }
    app.changed(Topic::Script(id.to_owned())).await?;
    app.events.record(Event::ScriptDeleted { actor: admin.did.to_string(), trigger: id.to_owned() });
    Ok(Empty)
}
