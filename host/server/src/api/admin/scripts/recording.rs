//! `/admin/scripts/{id}/recording`: records runs of a script, without secrets, to replay them on another body.

use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::rollout::has_callers;
use crate::access::Admin;
use crate::api::answer::{Empty, EmptyResult, Json, JsonResult};
use crate::api::input::WithBody;
use crate::app::{App, Topic};
use belvedere_base::clock::Timestamp;
use belvedere_instance::events::Event;
use belvedere_protocol::trigger::{Trigger, TriggerKind};
use belvedere_storage::store::script_recordings::{self, MAX_RECORDINGS, RecordedSize, RecordingRow};
use belvedere_storage::store::scripts;
use belvedere_web::http::{Error, Request};

/// Longest window of a recording: traffic of each day of the week.
const MAX_MINUTES: u32 = 7 * 24 * 60;

#[derive(Debug, Deserialize, JsonSchema)]
pub struct RecordingRequest {
    /// Percent of the runs, 1 to 100. Default: 100.
    percent: Option<i64>,
    /// Minutes from now until it ends, 1 to 10,080. Default: 60.
    minutes: Option<u32>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Recording {
    /// The trigger.
    id: String,
    percent: i64,
    until: Timestamp,
    started_by: String,
    started_at: Timestamp,
    /// Stored runs.
    runs: i64,
    /// Bytes of the stored runs.
    bytes: i64,
}

async fn view(app: &App, row: RecordingRow) -> JsonResult<Recording> {
    let RecordedSize { runs, bytes } = script_recordings::size(&app.db, &row.script_id).await?;
    let RecordingRow { script_id: id, percent, until, started_by, started_at } = row;
    Ok(Json(Recording { id, percent, until, started_by, started_at, runs, bytes }))
}

/// `GET /admin/scripts/{id}/recording`: the recording of a script, and how much it has.
pub async fn get(app: Arc<App>, _admin: Admin, request: Request) -> JsonResult<Recording> {
    let row = script_recordings::get(&app.db, request.param("id")).await?;
    view(&app, row.ok_or_else(none)?).await
}

/// `PUT /admin/scripts/{id}/recording`: starts to record runs of a script, or changes how many and until when.
pub async fn set(app: Arc<App>, admin: Admin, request: WithBody<RecordingRequest>) -> JsonResult<Recording> {
    let id = request.param("id");
    let RecordingRequest { percent, minutes } = request.json()?;
    let (percent, minutes) = (percent.unwrap_or(100), minutes.unwrap_or(60));
    if !(1..=100).contains(&percent) {
        return Err(Error::bad_request("percent must be a number from 1 to 100"));
    }
    if !(1..=MAX_MINUTES).contains(&minutes) {
        return Err(Error::bad_request(format!("minutes must be a number from 1 to {MAX_MINUTES}")));
    }
    let trigger = Trigger::parse(id).map_err(|_| Error::not_found("script not found"))?;
    if !can_be_recorded(&trigger) {
        let message =
            format!("runs of {id} can't be recorded: only those of methods, records and labels can");
        return Err(Error::bad_request(message));
    }
    if scripts::get(&app.db, id).await?.is_none() {
        return Err(Error::not_found("script not found"));
    }
    let now = app.clock.now();
    let window = Duration::from_mins(u64::from(minutes));
    let row = RecordingRow {
        script_id: id.to_owned(),
        percent,
        until: Timestamp(now.0.saturating_add(window.as_micros() as i64)),
        started_by: admin.did.to_string(),
        started_at: now,
    };
    if !script_recordings::set(&app.db, &row).await? {
        let message =
            format!("{MAX_RECORDINGS} other scripts are recorded: delete one of their recordings first");
        return Err(Error::conflict(message));
    }
    app.changed(Topic::Script(id.to_owned())).await?;
    let (actor, trigger, until) = (admin.did.to_string(), id.to_owned(), row.until);
    app.events.record(Event::ScriptRecordingStarted { actor, trigger, percent, until });
    let row = script_recordings::get(&app.db, id).await?;
    view(&app, row.ok_or_else(none)?).await
}

/// `DELETE /admin/scripts/{id}/recording`: ends a recording and removes its runs.
pub async fn delete(app: Arc<App>, admin: Admin, request: Request) -> EmptyResult {
    let id = request.param("id");
    if !script_recordings::delete(&app.db, id).await? {
        return Err(none());
    }
    app.changed(Topic::Script(id.to_owned())).await?;
    let (actor, trigger) = (admin.did.to_string(), id.to_owned());
    app.events.record(Event::ScriptRecordingDeleted { actor, trigger });
    Ok(Empty)
}

fn none() -> Error {
    Error::not_found("runs of the script are not recorded: start a recording")
}

/// Whether the runs of a trigger are short, and can be repeated without what they wait for.
fn can_be_recorded(trigger: &Trigger) -> bool {
    has_callers(trigger) && trigger.kind() != TriggerKind::JobRun
}
