//! `POST /admin/scripts/dry-run`: runs a script once on an event or a request, and answers what it returned, logged and
//! would have written. Nothing is written (docs/adr/0104).

mod answer;
mod event;

use std::sync::Arc;
use std::time::{Duration, Instant};

use http::StatusCode;
use schemars::JsonSchema;
use serde::Deserialize;

use self::answer::{DryRunAnswer, Finished, RunResult};
use self::event::{DryEvent, DryRunEvent};
use super::view;
use crate::access::{Admin, Permission};
use crate::api::answer::{Built, Json};
use crate::api::input::WithBody;
use crate::app::App;
use crate::event_scripts::MessageParams;
use crate::methods::dry_run::DryRunMethods;
use belvedere_instance::events::Event;
use belvedere_instance::xrpc::{Answer, Call, Caller};
use belvedere_protocol::atproto::Did;
use belvedere_protocol::trigger::{Trigger, TriggerKind};
use belvedere_scripting::scripts::{
    CompiledScript, DryRun, DryRunOptions, FailureKind, Invocation, Lineage, ScriptFailure,
};
use belvedere_scripting::views::View;
use belvedere_storage::store::scripts;
use belvedere_web::fair_share::Tenant;
use belvedere_web::http::{Error, response};

/// Time that a dry run waits for others to end. Longer waits look like a page that hangs.
const MAX_WAIT: Duration = Duration::from_secs(5);

#[derive(Debug, Deserialize, JsonSchema)]
pub struct DryRunRequest {
    /// The trigger.
    id: String,
    /// Absent: the stored script.
    #[serde(rename = "body")]
    source: Option<String>,
    /// Whether it may read from other servers; false when absent.
    network: Option<bool>,
    /// Whether the answer has a profile; false when absent. A profiled run takes several times as long, and burns as much more
    /// fuel.
    profile: Option<bool>,
    event: DryRunEvent,
}

pub async fn handle(
    app: Arc<App>,
    admin: Admin,
    request: WithBody<DryRunRequest>,
) -> Result<Built<Json<DryRunAnswer>>, Error> {
    let request = request.json()?;
    let trigger = Trigger::parse(&request.id).map_err(|e| Error::bad_request(e.to_string()))?;
    if trigger.kind() == TriggerKind::Library {
        return Err(Error::bad_request("a library does not run by itself: try a script that requires it"));
    }
    let event = request.event.resolve(&app, &trigger).await?;
    let is_stored = request.source.is_none();
    let source = match request.source {
        Some(source) => source,
        None => stored(&app, &trigger).await?,
    };
    let busy = || Error::new(StatusCode::SERVICE_UNAVAILABLE, "too many dry runs are running; try again");
    let entered = tokio::time::timeout(MAX_WAIT, app.scripting.dry_runs.acquire()).await;
    let _permit = entered.ok().and_then(Result::ok).ok_or_else(busy)?;

    let body = match trigger.kind() {
        TriggerKind::View => Body::View(Box::new(view::to_run(&app, &trigger, &source).await?)),
        // Compiled again also if it is stored, so that the stored script's statistics don't count dry runs.
        _ => Body::Script(Box::new(app.scripting.runtime.engine.compile(trigger.clone(), &source).await)),
    };
    let options = DryRunOptions {
        network: request.network.unwrap_or_default(),
        with_session: event.has_session(),
        with_variables: admin.may(Permission::ScriptVariablesRead),
        profile: request.profile.unwrap_or_default(),
    };
    let dry_run = DryRun::new(options);
    let methods = DryRunMethods::new(&app, &dry_run);
    let started = Instant::now();
    let result = match &body {
        Body::View(view) => Ok(answered(&admin, &methods, view, &event).await),
        Body::Script(script) => run(&app, &admin, &methods, script, &event).await,
    };
    let duration = started.elapsed();
    app.events.record(Event::ScriptDryRun {
        actor: admin.did.to_string(),
        trigger: trigger.id().to_owned(),
        is_stored,
        network: options.network,
        ok: result.is_ok(),
    });
    if let Err(failure) = &result {
        check_failure(failure)?;
    }
    let finished =
        Finished { trigger: &trigger, event: &event, result, duration, report: dry_run.take(), options };
    Ok(response::json(StatusCode::OK, &finished.answer(&app)).into())
}

/// The text that is run.
enum Body {
    Script(Box<CompiledScript>),
    View(Box<View>),
}

/// The answer of a view; its events are requests.
async fn answered(admin: &Admin, methods: &DryRunMethods, view: &View, event: &DryEvent) -> RunResult {
    let answer = match event {
        DryEvent::Request { call, .. } => {
            let call = Call { caller: caller(admin, call.caller.did.clone()), ..Call::clone(call) };
            methods.view(view, &call).await
        }
        _ => Answer::of_error(&Error::bad_request("a view answers requests")),
    };
    RunResult::Method(answer)
}

async fn stored(app: &App, trigger: &Trigger) -> Result<String, Error> {
    let row = scripts::get(&app.db, trigger.id()).await?;
    row.map(|row| row.body)
        .ok_or_else(|| Error::not_found("script not found: send its body to try one that is not saved"))
}

/// # Errors
/// When nothing was run, for a reason that is not the script's.
fn check_failure(failure: &ScriptFailure) -> Result<(), Error> {
    match failure.kind {
        FailureKind::Busy | FailureKind::Throttled => {
            Err(Error::new(StatusCode::SERVICE_UNAVAILABLE, failure.public_text()))
        }
        FailureKind::Internal => Err(Error::internal(failure.clone())),
        _ => Ok(()),
    }
}

async fn run(
    app: &App,
    admin: &Admin,
    methods: &DryRunMethods,
    script: &CompiledScript,
    event: &DryEvent,
) -> Result<RunResult, ScriptFailure> {
    let events = &app.scripting.events;
    match event {
        DryEvent::Record(event) => {
            events.dry_run_record(script, event, &methods.services()).await.map(RunResult::Record)
        }
        DryEvent::Label(label) => {
            events.dry_run_label(script, label, &methods.services()).await.map(RunResult::Label)
        }
        DryEvent::Change { change, params, values } => {
            let params = MessageParams { given: params, values: values.as_ref() };
            let made = events.attempt_messages(script, params, change, &methods.services()).await;
            made.map(RunResult::Messages)
        }
        DryEvent::Request { call, delegate } => {
            let call = Call { caller: caller(admin, call.caller.did.clone()), ..Call::clone(call) };
            methods.run(script, &call, delegate.as_ref(), None).await.map(RunResult::Method)
        }
        DryEvent::Job { input, caller_did, inherit_auth } => {
            let caller = caller(admin, caller_did.clone());
            // A job may wait for a day; an admin who tries one does not.
            let lineage = Lineage::of_dry_run(TriggerKind::Query);
            let invocation = Invocation {
                job: Some((DRY_RUN_JOB, input)),
                caller: Some(&caller),
                inherit_auth: *inherit_auth,
                lineage: Some(&lineage),
                ..Invocation::default()
            };
            let outcome = app.scripting.runtime.engine.run(script, invocation, &methods.services()).await?;
            Ok(RunResult::Finished(outcome.body))
        }
        DryEvent::Setup => {
            let caller = caller(admin, None);
            let invocation = Invocation { caller: Some(&caller), ..Invocation::default() };
            let outcome = app.scripting.runtime.engine.run(script, invocation, &methods.services()).await?;
            Ok(RunResult::Finished(outcome.body))
        }
    }
}

/// The `job.id` of a dry run.
const DRY_RUN_JOB: &str = "dry-run";

/// The caller of a run: the admin pays, also when they act for another account.
fn caller(admin: &Admin, did: Option<Did>) -> Caller {
    Caller { did, tenant: Tenant::of_did(admin.did.as_str()), ..Caller::default() }
}
