//! Runs the script bound to a method and answers with the value that `handle()` returned.

use std::time::{Duration, Instant};

use http::header::RETRY_AFTER;
use http::{HeaderValue, StatusCode};
use serde_json::{Value, json};

use super::{TypedCall, delegate};
use crate::access::Permission;
use crate::app::App;
use belvedere_instance::events::Event;
use belvedere_instance::events::redact::{self, Names};
use belvedere_instance::lexicons::Lexicon;
use belvedere_instance::xrpc::{Answer, Call, Verb};
use belvedere_protocol::atproto::{Did, Nsid};
use belvedere_protocol::trigger::Trigger;
use belvedere_scripting::scripts::{
    CompiledScript, FailureAnswer, FailureKind, Invocation, Lineage, ScriptFailure, Variables,
};
use belvedere_web::http::Error;

/// `lexicon` is `None` for a method of the server itself without one.
pub(super) async fn answer(
    app: &App,
    script: &CompiledScript,
    lexicon: Option<&Lexicon>,
    typed: &TypedCall<'_>,
    lineage: Option<&Lineage>,
) -> Result<Answer, Error> {
    let TypedCall { call, params, input } = typed;
    let body = input.as_deref().unwrap_or_default();
    let delegated = delegate::take_from(app, &call.caller, body).await?;
    let (delegate, input) = match &delegated {
        Some((account, rest)) => (Some(account), &rest[..]),
        None => (None, body),
    };
    let invocation = Invocation {
        method: Some(call.nsid.as_str()),
        collection: lexicon.and_then(|lexicon| lexicon.target_collection.as_ref()).map(Nsid::as_str),
        caller: Some(&call.caller),
        delegate,
        params: Some(&call.params),
        values: params.as_ref(),
        input: (!input.is_empty()).then_some(input),
        lineage,
        ..Invocation::default()
    };
    let started = Instant::now();
    let result = app.scripting.runtime.engine.run(script, invocation, &app.scripting.runtime.services).await;
    let duration = started.elapsed();
    let answer = match result {
        Ok(outcome) => {
            let lexicons = app.registry.snapshot();
            let body = lexicons.output_with_arrays(call.nsid.as_str(), outcome.body);
            if script.outputs.takes()
                && let Err(errors) = lexicons.check_output(call.nsid.as_str(), &body)
            {
                report_output(app, script.trigger(), call, errors.to_string());
            }
            Answer::json(StatusCode::OK, body)
        }
        Err(failure) => match failure.answer.as_deref() {
            Some(FailureAnswer::Raised(answer)) => answer.clone(),
            // The answer is that of a method without a script.
            Some(FailureAnswer::Upstream(answer) | FailureAnswer::Own(answer)) => return Ok(answer.clone()),
            None => {
                let run = FailedRun { script, method: &call.nsid, call, invocation, duration };
                let public = failed(app, &run, &failure);
                return Err(Box::pin(with_details(app, &run, &failure, public)).await);
            }
        },
    };
    app.events.record_verbose(|| Event::ScriptExecuted {
        caller: call.caller.did.as_ref().map(Did::to_string),
        method: call.nsid.to_string(),
        version: script.version(),
        duration,
        response_size: answer.body.len(),
    });
    Ok(answer)
}

/// A run that failed, for the event log.
struct FailedRun<'a> {
    script: &'a CompiledScript,
    method: &'a Nsid,
    call: &'a Call,
    invocation: Invocation<'a>,
    duration: Duration,
}

/// Records the failure in the event log, within the tenant's share of it, and maps it to one of the specification's
/// texts.
fn failed(app: &App, run: &FailedRun<'_>, failure: &ScriptFailure) -> Error {
    if let Some(wait) = failure.retry_after {
        let seconds = wait.as_secs().saturating_add(1);
        return Error::new(StatusCode::TOO_MANY_REQUESTS, failure.public_text())
            .with_header(RETRY_AFTER, seconds.into());
    }
    if failure.kind == FailureKind::Busy {
        let error = Error::new(StatusCode::SERVICE_UNAVAILABLE, failure.public_text());
        // A procedure may have done some of its work, and must not be repeated without a look.
        let repeatable = run.call.verb == Verb::Query;
        return if repeatable {
            error.with_header(RETRY_AFTER, HeaderValue::from_static("1"))
        } else {
            error
        };
    }
    let public = Error::new(StatusCode::INTERNAL_SERVER_ERROR, failure.public_text());
    let FailedRun { script, method, call, invocation, duration } = *run;
    // The event keeps message, source and input, each cut to some KiB.
    let bytes = failure.message.len() + script.source().len().min(EVENT_BYTES) + EVENT_BYTES;
    let trigger = script.trigger().id().into();
    if !app.scripting.runtime.services.log.admit(&call.caller.tenant, &trigger, bytes, app.clock.now()) {
        return public;
    }
    let variables = &app.scripting.runtime.services.variables;
    tracing::warn!(
        method = method.as_str(),
        kind = failure.kind.as_str(),
        error = failure.message,
        "a script failed"
    );
    let mut input = redacted(variables, &call.params, invocation.input);
    // It may have what was to be written in the space, which operators don't read.
    if app.spaces.check_enabled().is_ok() && mentions_space(&input) {
        input = json!("left out: the call may be about a space");
    }
    app.events.record(Event::ScriptError {
        method: method.clone(),
        caller: call.caller.did.as_ref().map(Did::to_string),
        error: variables.redact(&failure.message).into_owned(),
        script_source: script.source().to_owned(),
        version: script.version(),
        input,
        duration,
    });
    public
}

/// The error with the failure's message and stack, if the caller manages scripts or the application is under development. A
/// script that made the call gets none: it can answer someone else.
async fn with_details(app: &App, run: &FailedRun<'_>, failure: &ScriptFailure, public: Error) -> Error {
    let is_nested = run.invocation.lineage.is_some();
    if is_nested || public.status != StatusCode::INTERNAL_SERVER_ERROR || !sees_failures(app, run).await {
        return public;
    }
    let mut text = failure.message.clone();
    if let Some(traceback) = &failure.traceback {
        text.push('\n');
        text.push_str(traceback);
    }
    let variables = &app.scripting.runtime.services.variables;
    public.with_message(variables.redact(&text).into_owned())
}

async fn sees_failures(app: &App, run: &FailedRun<'_>) -> bool {
    if app.shows_failures {
        return true;
    }
    let Some(caller) = &run.call.caller.did else { return false };
    // The answer is the same error without the database.
    let user = app.access.users.in_person(&app.access, caller).await.ok().flatten();
    user.is_some_and(|user| user.may(Permission::ScriptsManage))
}

/// Records that an output does not match the lexicon, within the tenant's share of the event log.
pub(super) fn report_output(app: &App, trigger: &Trigger, call: &Call, error: String) {
    let trigger = trigger.id().into();
    let log = &app.scripting.runtime.services.log;
    if log.admit(&call.caller.tenant, &trigger, error.len(), app.clock.now()) {
        let (method, caller) = (call.nsid.clone(), call.caller.did.as_ref().map(Did::to_string));
        app.events.record(Event::ScriptOutputInvalid { method, caller, error });
    }
}

/// Bytes that the event of a failure keeps of the source, and of the input.
const EVENT_BYTES: usize = 4 << 10;

/// Bytes of an input that is parsed for the event log. The log keeps a small part of it.
const PARSED_BYTES: usize = 64 << 10;

/// Whether an input has the address of a space, or a field or a parameter named after one.
fn mentions_space(input: &Value) -> bool {
    let text = input.to_string();
    text.contains("/space/") || text.contains("\"space")
}

/// The input of a run for the event log: its body or parameters, with secrets redacted.
fn redacted(variables: &Variables, params: &[(String, String)], input: Option<&[u8]>) -> Value {
    let mut value = match input {
        Some(input) if input.len() > PARSED_BYTES => json!(format!("{} bytes of JSON", input.len())),
        Some(input) => serde_json::from_slice(input).unwrap_or_default(),
        None => json!(params),
    };
    redact::redact(&mut value, Names::OfCaller, &|text| variables.redact(text));
    value
}
