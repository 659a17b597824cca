//! `/admin/scripts/{id}/rollout`: lets a part of a script's callers run a candidate for its body, and compares both versions.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::body::check_source;
use crate::access::Admin;
use crate::api::answer::{Json, JsonResult};
use crate::api::input::WithBody;
use crate::app::{App, Topic};
use belvedere_base::clock::Timestamp;
use belvedere_instance::events::Event;
use belvedere_protocol::trigger::{Trigger, TriggerKind};
use belvedere_storage::store::script_rollouts::{
    self, RolloutCounts, RolloutRow, RolloutState, RolloutTerms,
};
use belvedere_storage::store::scripts::{self, ScriptPatch};
use belvedere_web::http::{Error, Request};

/// Runs of a candidate before it is compared, unless the request says otherwise: a share of failures below one in twenty is seen.
const MIN_RUNS: i64 = 100;

/// Points of failures, and percent of the time, that a candidate may have, unless the request says otherwise.
const MAX_ERRORS: i64 = 5;
const MAX_TIME: i64 = 200;

/// The largest number of each term.
const MAX_MIN_RUNS: i64 = 1_000_000;
const MAX_FACTOR: i64 = 100_000;

#[derive(Debug, Deserialize, JsonSchema)]
pub struct NewRollout {
    /// The candidate for the script's body.
    body: String,
    #[serde(flatten)]
    terms: Terms,
    /// The revision of the script: 409 if there is another. Absent: whichever there is.
    revision: Option<u32>,
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct Terms {
    /// Percent of callers that run the candidate, 1 to 100. A caller stays among them when it rises.
    percent: i64,
    /// Runs of the candidate before it is compared, 1 to 1,000,000. Default: 100.
    min_runs: Option<i64>,
    /// Percentage points by which its failed runs may exceed those of the script, 0 to 100. Default: 5.
    max_errors: Option<i64>,
    /// Percent of the script's mean time that it may take, 0 for any. Default: 200.
    max_time: Option<i64>,
    /// Percent of the script's mean instructions that it may execute, 0 for any. Default: any.
    max_instructions: Option<i64>,
}

impl Terms {
    fn check(&self) -> Result<RolloutTerms, Error> {
        let within = |name: &str, value: i64, from: i64, to: i64| {
            let ok = (from..=to).contains(&value).then_some(value);
            ok.ok_or_else(|| Error::bad_request(format!("{name} must be a number from {from} to {to}")))
        };
        let min_runs = self.min_runs.unwrap_or(MIN_RUNS);
        let max_time = self.max_time.unwrap_or(MAX_TIME);
        let max_instructions = self.max_instructions.unwrap_or_default();
        let factor = |name, value| {
            within(name, value, 0, MAX_FACTOR).map(|value| Some(value).filter(|value| *value > 0))
        };
        Ok(RolloutTerms {
            percent: within("percent", self.percent, 1, 100)?,
            min_runs: within("min_runs", min_runs, 1, MAX_MIN_RUNS)?,
            max_errors: within("max_errors", self.max_errors.unwrap_or(MAX_ERRORS), 0, 100)?,
            max_time: factor("max_time", max_time)?,
            max_instructions: factor("max_instructions", max_instructions)?,
        })
    }
}

/// The runs of one version on all hosts since the rollout was started.
#[derive(Debug, Serialize, JsonSchema)]
struct VersionRuns {
    runs: i64,
    failures: i64,
    /// Instructions of one run; null before the first, and for jobs.
    mean_instructions: Option<i64>,
    /// Milliseconds of one run from begin to end, waits included; null before the first.
    mean_ms: Option<f64>,
    /// Milliseconds that one run computes; null before the first.
    mean_cpu_ms: Option<f64>,
}

impl From<RolloutCounts> for VersionRuns {
    fn from(counts: RolloutCounts) -> Self {
        let RolloutCounts { runs, failures, instructions, guest_micros, took_micros } = counts;
        let millis = |micros: i64| (runs > 0).then(|| micros as f64 / 1e3 / runs as f64);
        Self {
            runs,
            failures,
            mean_instructions: (runs > 0 && instructions > 0).then(|| instructions / runs),
            mean_ms: millis(took_micros),
            mean_cpu_ms: millis(guest_micros),
        }
    }
}

/// The rollout of a script that goes on, or the one that ended last.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Rollout {
    /// The trigger.
    id: String,
    /// The candidate.
    body: String,
    /// The revision of the script that the other callers run.
    revision: i64,
    percent: i64,
    min_runs: i64,
    max_errors: i64,
    /// Null: any.
    max_time: Option<i64>,
    /// Null: any.
    max_instructions: Option<i64>,
    state: RolloutState,
    /// The reason why the candidate was returned.
    reason: Option<String>,
    started_by: String,
    started_at: Timestamp,
    /// The time at which the terms or the state changed last.
    changed_at: Timestamp,
    current: VersionRuns,
    candidate: VersionRuns,
}

async fn view(app: &App, row: RolloutRow) -> JsonResult<Rollout> {
    let [current, candidate] = app.rollout_counts(&row.script_id).await?;
    let RolloutTerms { percent, min_runs, max_errors, max_time, max_instructions } = row.terms;
    Ok(Json(Rollout {
        id: row.script_id,
        body: row.body,
        revision: row.base_revision,
        percent,
        min_runs,
        max_errors,
        max_time,
        max_instructions,
        state: row.state,
        reason: row.reason,
        started_by: row.started_by,
        started_at: row.started_at,
        changed_at: row.changed_at,
        current: current.into(),
        candidate: candidate.into(),
    }))
}

/// `GET /admin/scripts/{id}/rollout`: the rollout that goes on, or the one that ended last, with the runs of both versions.
pub async fn get(app: Arc<App>, _admin: Admin, request: Request) -> JsonResult<Rollout> {
    // The client sees its own calls.
    app.compare_rollouts_once().await?;
    let row = script_rollouts::get(&app.db, request.param("id")).await?;
    view(&app, row.ok_or_else(|| Error::not_found("the script has had no rollout"))?).await
}

/// `POST /admin/scripts/{id}/rollout`: starts a rollout. 409 while another one of the script goes on.
pub async fn start(app: Arc<App>, admin: Admin, request: WithBody<NewRollout>) -> JsonResult<Rollout, 201> {
    let id = request.param("id");
    let NewRollout { body, terms, revision } = request.json()?;
    let terms = terms.check()?;
    let trigger = Trigger::parse(id).map_err(|_| Error::not_found("script not found"))?;
    if !has_callers(&trigger) {
        let message =
            format!("{id} has no callers: only scripts of methods, records, labels and jobs have rollouts");
        return Err(Error::bad_request(message));
    }
    let script = scripts::get(&app.db, id).await?.ok_or_else(|| Error::not_found("script not found"))?;
    if revision.is_some_and(|revision| i64::from(revision) != script.revision) {
        let message =
            format!("the script has revision {} by now: load it again, and compare", script.revision);
        return Err(Error::conflict(message));
    }
    if body == script.body {
        return Err(Error::bad_request("the candidate is the script's own body: send another one"));
    }
    check_source(&app, trigger, &body).await?;
    let now = app.clock.now();
    let row = RolloutRow {
        script_id: id.to_owned(),
        body,
        base_revision: script.revision,
        terms,
        state: RolloutState::Running,
        reason: None,
        started_by: admin.did.to_string(),
        started_at: now,
        changed_at: now,
    };
    if !script_rollouts::start(&app.db, &row).await? {
        let message =
            "a rollout of the script goes on, or the script was changed: promote or return it first";
        return Err(Error::conflict(message));
    }
    app.changed(Topic::Script(id.to_owned())).await?;
    app.events.record(Event::ScriptRolloutStarted {
        actor: admin.did.to_string(),
        trigger: id.to_owned(),
        revision: script.revision,
        percent: terms.percent,
    });
    let Json(rollout) = view(&app, row).await?;
    Ok(Json(rollout))
}

/// `PUT /admin/scripts/{id}/rollout`: changes the part of the callers that run the candidate, and when it is returned.
pub async fn change(app: Arc<App>, admin: Admin, request: WithBody<Terms>) -> JsonResult<Rollout> {
    let id = request.param("id");
    let terms = request.json()?.check()?;
    let row = script_rollouts::change(&app.db, id, terms, app.clock.now()).await?;
    let row = row.ok_or_else(none_goes_on)?;
    app.changed(Topic::Script(id.to_owned())).await?;
    let (actor, trigger) = (admin.did.to_string(), id.to_owned());
    app.events.record(Event::ScriptRolloutChanged { actor, trigger, percent: terms.percent });
    view(&app, row).await
}

/// `DELETE /admin/scripts/{id}/rollout`: returns the candidate. All callers run the script as it is saved.
pub async fn end(app: Arc<App>, admin: Admin, request: Request) -> JsonResult<Rollout> {
    app.compare_rollouts_once().await?;
    let row = going_on(&app, request.param("id")).await?;
    if !app.return_candidate(&row, Some(admin.did.to_string()), "an admin returned it").await? {
        return Err(none_goes_on());
    }
    let row = script_rollouts::get(&app.db, &row.script_id).await?.ok_or_else(none_goes_on)?;
    view(&app, row).await
}

/// `POST /admin/scripts/{id}/rollout/promote`: saves the candidate as the script's body. 409 if the script was changed meanwhile.
pub async fn promote(app: Arc<App>, admin: Admin, request: Request) -> JsonResult<Rollout> {
    app.compare_rollouts_once().await?;
    let row = going_on(&app, request.param("id")).await?;
    let id = row.script_id;
    let trigger = Trigger::parse(&id).map_err(|_| Error::not_found("script not found"))?;
    let script = scripts::get(&app.db, &id).await?.ok_or_else(|| Error::not_found("script not found"))?;
    // A library may have changed since it was started.
    let methods = check_source(&app, trigger, &row.body).await?;
    let actor = admin.did.to_string();
    let patch = ScriptPatch {
        body: Some((row.body, Some(methods).filter(|methods| !methods.is_empty()))),
        based_on: Some(script.revision),
        saved_by: Some(actor.clone()),
        ..ScriptPatch::default()
    };
    // The rollout ends in the same transaction.
    let saved = scripts::patch(&app.db, &id, &patch, app.clock.now()).await?;
    let saved = saved.ok_or_else(|| Error::not_found("script not found"))?;
    app.changed(Topic::Script(id.clone())).await?;
    let (trigger, script_type) = (id.clone(), saved.script_type);
    app.events.record(Event::ScriptUpdated { actor: actor.clone(), trigger: id.clone(), script_type });
    app.events.record(Event::ScriptRolloutPromoted { actor, trigger, revision: saved.revision });
    let row = script_rollouts::get(&app.db, &id).await?.ok_or_else(none_goes_on)?;
    view(&app, row).await
}

async fn going_on(app: &App, id: &str) -> Result<RolloutRow, Error> {
    let row = script_rollouts::get(&app.db, id).await?;
    row.filter(|row| row.state == RolloutState::Running).ok_or_else(none_goes_on)
}

fn none_goes_on() -> Error {
    Error::not_found("no rollout of the script goes on: start one")
}

/// Whether the runs of a trigger are caused by accounts, so that a part of them can be chosen.
pub(super) fn has_callers(trigger: &Trigger) -> bool {
    match trigger.kind() {
        TriggerKind::View | TriggerKind::Setup | TriggerKind::Schedule | TriggerKind::Library => false,
        TriggerKind::Query
        | TriggerKind::Procedure
        | TriggerKind::Subscription
        | TriggerKind::RecordCreate
        | TriggerKind::RecordUpdate
        | TriggerKind::RecordDelete
        | TriggerKind::RecordIndex
        | TriggerKind::LabelApply
        | TriggerKind::JobRun => true,
    }
}
