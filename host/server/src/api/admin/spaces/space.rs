//! `/admin/spaces/{did}/{type}/{skey}`: a space, its settings and its deletion.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{SpaceSummary, named};
use crate::access::Admin;
use crate::api::answer::{Empty, EmptyResult, Json, JsonResult};
use crate::api::input::WithBody;
use crate::api::xrpc::spaces::settings::SettingsBody;
use crate::app::App;
use belvedere_base::clock::Timestamp;
use belvedere_instance::events::Event;
use belvedere_instance::spaces::Viewer;
use belvedere_protocol::spaces::SpaceUri;
use belvedere_protocol::spaces::r10::policy;
use belvedere_storage::store::Patch;
use belvedere_storage::store::spaces::counts::SpaceCounts;
use belvedere_web::http::Request;

#[derive(Debug, Serialize, JsonSchema)]
pub struct Space {
    #[serde(flatten)]
    summary: SpaceSummary,
    description: Option<String>,
    /// An object of the protocol, with `$type`. Null for a space of another host, which alone knows it.
    read_policy: Option<Value>,
    write_policy: Option<Value>,
    app_access: Option<Value>,
    config: Option<Value>,
    /// The rev of the last tracked write.
    rev: Option<String>,
    updated_at: Timestamp,
    counts: SpaceCounts,
}

async fn view(app: &App, uri: &SpaceUri) -> JsonResult<Space> {
    let (row, counts) = app.spaces.overview(uri).await?;
    let known = row.is_hosted.then(|| row.settings.clone());
    Ok(Json(Space {
        description: row.settings.description.clone(),
        read_policy: known.as_ref().map(|known| policy::policy_json(&known.read_policy)),
        write_policy: known.as_ref().map(|known| policy::policy_json(&known.write_policy)),
        app_access: known.as_ref().map(|known| policy::app_access_json(&known.app_access)),
        config: known.map(|known| Value::Object(known.config.as_json().clone())),
        rev: row.rev.map(|rev| rev.to_string()),
        updated_at: row.updated_at,
        summary: row.into(),
        counts,
    }))
}

/// `GET /admin/spaces/{did}/{type}/{skey}`: a space, with the numbers of its members, repos, records, services and invites.
pub async fn get(app: Arc<App>, _admin: Admin, request: Request) -> JsonResult<Space> {
    view(&app, &named(&request)?).await
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct SpacePatch {
    #[serde(default)]
    display_name: Patch<String>,
    #[serde(default)]
    description: Patch<String>,
    /// Policies are objects with `$type`, as in the protocol.
    read_policy: Option<Value>,
    write_policy: Option<Value>,
    app_access: Option<Value>,
    config: Option<Map<String, Value>>,
}

/// `PATCH /admin/spaces/{did}/{type}/{skey}`: changes the settings of a space that this instance hosts; absent fields stay.
pub async fn update(app: Arc<App>, admin: Admin, request: WithBody<SpacePatch>) -> JsonResult<Space> {
    let (uri, body) = (named(&request)?, request.json()?);
    let change = SettingsBody {
        display_name: body.display_name,
        description: body.description,
        read_policy: body.read_policy,
        write_policy: body.write_policy,
        app_access: body.app_access,
        config: body.config,
        ..SettingsBody::default()
    };
    app.spaces.update(&uri, &Viewer::operator(admin.did.clone()), &change.change()?).await?;
    app.events.record(Event::SpaceUpdated { actor: admin.did.to_string(), space: uri.to_string() });
    view(&app, &uri).await
}

/// `DELETE /admin/spaces/{did}/{type}/{skey}`: deletes a space that this instance hosts, with its members and records. The
/// registered services receive a notice, and the address is never used again.
pub async fn delete(app: Arc<App>, admin: Admin, request: Request) -> EmptyResult {
    let uri = named(&request)?;
    app.spaces.delete(&uri, &Viewer::operator(admin.did.clone())).await?;
    app.events.record(Event::SpaceDeleted { actor: admin.did.to_string(), space: uri.to_string() });
    Ok(Empty)
}
