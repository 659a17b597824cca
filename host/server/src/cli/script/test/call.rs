//! The functions `call.*` of test files: calls of methods, events and jobs, answered as the server answers them.

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::change::change;
use super::spaces;
use super::world::{Refused, World, checked, parse, parse_did, store_label, without_nulls};
use crate::event_scripts::LabelVerdict;
use crate::methods;
use crate::scheduler::JOB_TYPE_PREFIX;
use belvedere_instance::indexing::{RecordAction, RecordEvent, RecordScriptRunner as _};
use belvedere_instance::pds::SessionAuthority;
use belvedere_instance::xrpc::{Answer, Call, CallHeaders, Caller, Verb};
use belvedere_protocol::atproto::{Nsid, RecordUri, Tid, set_record_type};
use belvedere_protocol::trigger::TriggerKind;
use belvedere_storage::store::index::Change;
use belvedere_storage::store::jobs;
use belvedere_storage::store::records::{PAGE_BYTES, latest_rev, tid_of_rev};
use belvedere_web::fair_share::Tenant;

/// The clock id of the revs of given events.
const CLOCK_ID: u16 = 8;

/// Jobs of one list.
const MAX_JOBS: u32 = 1_000;

/// Answers a function of `call`, or of `seen` for what the database has. `None` when there is no such function.
pub(super) async fn answer(world: &World, function: &str, call: &Call) -> Option<Result<Value, Refused>> {
    let input = call.input.as_deref().unwrap_or(b"{}");
    let done = match function {
        "query" => method(world, Verb::Query, input, &call.params).await,
        "procedure" => method(world, Verb::Procedure, input, &call.params).await,
        "event" => event(world, input).await,
        "change" => change(world, input, &call.params).await,
        "labelEvent" => label(world, input).await,
        "job" => Box::pin(job(world, input)).await,
        "schedule" => Box::pin(schedule(world, input)).await,
        "jobs" => Box::pin(run_jobs(world)).await,
        "seen" => seen(world, input).await,
        _ => return None,
    };
    Some(done)
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Options {
    /// The account that calls.
    #[serde(rename = "as")]
    caller: Option<String>,
    /// Whether the account has a session with its PDS; true when absent.
    session: Option<bool>,
}

impl Options {
    fn caller(&self, function: &str) -> Result<Caller, Refused> {
        let Some(did) = &self.caller else { return Ok(Caller::default()) };
        let did = parse_did(&format!("{function}: as"), did)?;
        let authority = if self.session.unwrap_or(true) {
            SessionAuthority::Session { id: did.as_str().into(), client: None }
        } else {
            SessionAuthority::None
        };
        let tenant = Tenant::of_did(did.as_str());
        Ok(Caller { did: Some(did), authority, tenant, ..Caller::default() })
    }
}

#[derive(Deserialize)]
struct MethodCall {
    nsid: String,
    input: Option<Box<RawValue>>,
    #[serde(default)]
    options: Options,
}

async fn method(
    world: &World,
    verb: Verb,
    input: &[u8],
    params: &[(String, String)],
) -> Result<Value, Refused> {
    let function = if verb == Verb::Query { "call.query" } else { "call.procedure" };
    let MethodCall { nsid, input, options } = parse(function, input)?;
    let caller = options.caller(function)?;
    let nsid =
        Nsid::try_from(nsid.as_str()).map_err(|_| Refused(format!("{function}: {nsid:?} is not an NSID")))?;
    let trigger = format!("{}:{nsid}", verb.trigger().as_str());
    let input = input.map(|input| Bytes::from(Box::<str>::from(input).into_string()));
    let call = Call { verb, nsid, params: params.to_owned(), input, caller, headers: CallHeaders::default() };
    let runs = world.seen.runs();
    let answered = methods::answer(&world.app, &call).await;
    let answer = answered.unwrap_or_else(|failure| Answer::of_error(&failure.into()));
    let run = world.seen.run_since(runs, &trigger);
    let text = || Value::String(String::from_utf8_lossy(&answer.body).into_owned());
    let body: Value = serde_json::from_slice(&answer.body).unwrap_or_else(|_| text());
    let failure = run.as_ref().and_then(|run| run.failure.as_ref());
    Ok(without_nulls(json!({
        "status": answer.status.as_u16(),
        "body": body,
        "instructions": run.as_ref().and_then(|run| run.instructions),
        "error": failure.filter(|failure| !failure.is_intended()).map(|failure| &failure.message),
    })))
}

#[derive(Deserialize)]
struct GivenEvent {
    action: String,
    uri: String,
    record: Option<Map<String, Value>>,
}

async fn event(world: &World, input: &[u8]) -> Result<Value, Refused> {
    let GivenEvent { action, uri, record } = parse("call.record", input)?;
    let refused = |error: &dyn std::fmt::Display| Refused(format!("call.record: {uri}: {error}"));
    let action = RecordAction::parse(&action)
        .ok_or_else(|| Refused("call.record: action: create, update or delete expected".to_owned()))?;
    let parsed = RecordUri::parse(&uri).map_err(|error| refused(&error))?;
    let events = &world.app.scripting.events;
    let script = events.record_script(parsed.collection.as_str(), action).ok_or_else(|| {
        refused(&format!("no script is bound to record.{action} or record.index of {}", parsed.collection))
    })?;
    let record = match (action, record) {
        (RecordAction::Delete, _) => None,
        (_, None) => return Err(refused(&"the record is missing")),
        (_, Some(mut fields)) => {
            set_record_type(&mut fields, parsed.collection.as_str()).map_err(|error| refused(&error))?;
            Some(checked(Value::Object(fields).to_string().into()).map_err(|error| refused(&error))?)
        }
    };
    let rev = next_rev(world, &parsed).await?;
    let change = Change { uri: parsed.clone(), rev, record };
    let runs = world.seen.runs();
    let decided = events.decide(RecordEvent { action, change }).await;
    let outcome = match &decided {
        None => "skipped",
        Some(Change { record: None, .. }) => "deleted",
        Some(_) => "stored",
    };
    let record = decided.as_ref().and_then(Change::text).cloned();
    if let Some(change) = decided {
        world.app.stream.writer().submit(change).await.map_err(|error| refused(&error))?;
    }
    let run = world.seen.run_since(runs, script.trigger().id());
    let record: Option<Value> = record.and_then(|text| serde_json::from_slice(&text).ok());
    Ok(without_nulls(json!({
        "outcome": outcome,
        "record": record,
        "instructions": run.as_ref().and_then(|run| run.instructions),
        "error": run.as_ref().and_then(|run| run.failure.as_ref()).map(|failure| &failure.message),
    })))
}

/// A rev after the record's latest.
async fn next_rev(world: &World, uri: &RecordUri) -> Result<Tid, Refused> {
    let latest = latest_rev(&world.app.db, uri).await.map_err(Refused::of)?;
    let now = u64::try_from(world.clock.now().0).unwrap_or_default();
    let of_clock = Tid::new(now, CLOCK_ID).map_err(Refused::of)?;
    match latest {
        Some(latest) => {
            let after = tid_of_rev(latest + 1).map_err(Refused::of)?;
            Ok(if after.to_string() > of_clock.to_string() { after } else { of_clock })
        }
        None => Ok(of_clock),
    }
}

async fn label(world: &World, input: &[u8]) -> Result<Value, Refused> {
    let label = world.label("call.label", input)?;
    let trigger = format!("{}:{}", TriggerKind::LabelApply.as_str(), label.trigger_subject());
    let runs = world.seen.runs();
    let verdict = world.app.scripting.events.apply_label(label).await;
    let run = world.seen.run_since(runs, &trigger);
    let run = run.ok_or_else(|| Refused(format!("call.label: no script is bound to {trigger}")))?;
    let (outcome, kept) = match verdict {
        LabelVerdict::Drop => ("dropped", None),
        LabelVerdict::Keep(label) => ("stored", Some(label)),
    };
    let shown = kept.as_ref().map(|label| without_nulls(label.to_json()));
    if let Some(label) = kept {
        store_label(world, label).await?;
    }
    Ok(without_nulls(json!({
        "outcome": outcome,
        "label": shown,
        "instructions": run.instructions,
        "error": run.failure.as_ref().map(|failure| &failure.message),
    })))
}

#[derive(Deserialize)]
struct NewJob {
    name: String,
    input: Option<Box<RawValue>>,
    #[serde(default)]
    options: Options,
}

/// Queues a job, runs all that are queued, and returns the job.
async fn job(world: &World, input: &[u8]) -> Result<Value, Refused> {
    let NewJob { name, input, options } = parse("call.job", input)?;
    let app = &world.app;
    let caller = options.caller("call.job")?;
    let creator = caller.did.as_ref().map_or_else(|| app.identity.did.to_string(), ToString::to_string);
    let input = input.as_ref().map_or("{}", |input| input.get());
    let id =
        app.scripting.jobs.create(&name, input, &creator, None, &caller.tenant, caller.authority.is_some());
    let id = id.await.map_err(|error| Refused(format!("call.job: {error}")))?;
    run_queued(world).await?;
    job_of(world, &id).await
}

#[derive(Deserialize)]
struct Named {
    name: String,
}

async fn schedule(world: &World, input: &[u8]) -> Result<Value, Refused> {
    let Named { name } = parse("call.schedule", input)?;
    let app = &world.app;
    let trigger = format!("{}:{name}", TriggerKind::Schedule.as_str());
    if app.scripting.runtime.scripts.get(&trigger).is_none() {
        return Err(Refused(format!("call.schedule: no script is bound to {trigger}")));
    }
    let (id, kind) = (app.random.uuid(), format!("{JOB_TYPE_PREFIX}{name}"));
    app.scripting.jobs.create_alone(&id, &kind, app.identity.did.as_str()).await.map_err(Refused::of)?;
    run_queued(world).await?;
    job_of(world, &id).await
}

async fn run_jobs(world: &World) -> Result<Value, Refused> {
    Ok(json!({ "jobs": run_queued(world).await? }))
}

async fn run_queued(world: &World) -> Result<usize, Refused> {
    Box::pin(world.app.run_queued_jobs()).await.map_err(Refused::of)
}

async fn job_of(world: &World, id: &str) -> Result<Value, Refused> {
    let row = jobs::get(&world.app.db, id).await.map_err(Refused::of)?;
    Ok(row.as_ref().map(shown_job).unwrap_or_default())
}

fn shown_job(row: &jobs::JobRow) -> Value {
    let parsed = |text: &str| serde_json::from_str::<Value>(text).unwrap_or_default();
    without_nulls(json!({
        "type": row.job_type,
        "status": row.status.as_str(),
        "input": parsed(&row.input),
        "progress": parsed(&row.progress),
        "result": row.result.as_deref().map(parsed),
        "error": row.error,
    }))
}

#[derive(Deserialize)]
struct SeenList {
    list: String,
    /// The space of the list `space`.
    space: Option<String>,
}

async fn seen(world: &World, input: &[u8]) -> Result<Value, Refused> {
    let SeenList { list, space } = parse("seen", input)?;
    let found = match (&*list, space) {
        ("jobs", _) => {
            let mut rows = jobs::list(&world.app.db, None, None, MAX_JOBS).await.map_err(Refused::of)?;
            rows.reverse();
            rows.iter().map(shown_job).collect()
        }
        ("space", space) => spaces::records(world, space.as_deref().unwrap_or_default()).await?,
        _ => world.seen.list(&list).unwrap_or_default(),
    };
    let answer = json!({ "list": found });
    if answer.to_string().len() > PAGE_BYTES {
        return Err(Refused(format!("seen.{list}: the list has more than {PAGE_BYTES} bytes")));
    }
    Ok(answer)
}
