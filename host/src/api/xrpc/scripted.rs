//! Runs the script bound to a method and answers with what `handle()` returned.

use std::time::{Duration, Instant};

use http::StatusCode;
use http::header::RETRY_AFTER;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use super::{delegate, params};
use crate::access::XrpcCaller;
use crate::app::App;
use crate::atproto::{Did, LexiconKind, Nsid};
use crate::events::{Event, ScriptError, redact};
use crate::fair_share::Tenant;
use crate::http::{Error, Request, Response, response};
use crate::lexicons::Lexicon;
use crate::scripts::{CompiledScript, FailureKind, Invocation, ScriptFailure, Variables};

pub(super) async fn query(
    app: &App,
    script: &CompiledScript,
    lexicon: &Lexicon,
    caller: &XrpcCaller,
    request: &Request,
) -> Result<Response, Error> {
    run(app, script, lexicon, caller, Asked { params: params::collect(request), ..Asked::default() }).await
}

/// What a call brings.
#[derive(Default)]
struct Asked<'a> {
    params: Vec<(String, String)>,
    input: Option<&'a [u8]>,
    /// The account that the caller writes for, if it is not their own.
    delegate: Option<&'a Did>,
}

/// As a query, with the body as `input`: any JSON, or nothing at all.
pub(super) async fn procedure(
    app: &App,
    script: &CompiledScript,
    lexicon: &Lexicon,
    caller: &XrpcCaller,
    request: &Request,
) -> Result<Response, Error> {
    let input = &request.body[..];
    if !input.is_empty() {
        serde_json::from_slice::<IgnoredAny>(input)
            .map_err(|error| Error::bad_request(format!("the body is not JSON: {error}")))?;
    }
    let delegated = delegate::take_from(app, caller, input).await?;
    let (delegate, input) = match &delegated {
        Some((account, rest)) => (Some(account), &rest[..]),
        None => (None, input),
    };
    let input = (!input.is_empty()).then_some(input);
    run(app, script, lexicon, caller, Asked { params: params::collect(request), input, delegate }).await
}

async fn run(
    app: &App,
    script: &CompiledScript,
    lexicon: &Lexicon,
    caller: &XrpcCaller,
    asked: Asked<'_>,
) -> Result<Response, Error> {
    let Asked { params, input, delegate } = asked;
    let (bound, authority, tenant) = (caller.is_bound(), Some(caller.authority()), caller.tenant());
    let lineage = caller.lineage();
    let client = caller.named_client().map(|client| client.id.as_str());
    let caller = caller.did();
    let invocation = Invocation {
        method: Some(lexicon.id.as_str()),
        collection: lexicon.target_collection.as_ref().map(Nsid::as_str),
        caller_did: caller.map(Did::as_str),
        delegate_did: delegate.map(Did::as_str),
        params: Some(&params),
        input,
        client,
        tenant: Some(&tenant),
        authority,
        bound,
        lineage,
        ..Invocation::default()
    };
    let started = Instant::now();
    let result = app.engine.run(script, invocation, &app.script_services).await;
    let duration = started.elapsed();
    match result {
        Ok(outcome) => {
            app.events.record_verbose(|| Event::ScriptExecuted {
                caller: caller.map(Did::to_string),
                method: lexicon.id.to_string(),
                duration,
                response_size: outcome.body.len(),
            });
            Ok(response::json_bytes(StatusCode::OK, outcome.body))
        }
        Err(failure) => {
            // What a PDS refused is the caller's answer, unchanged, as for a procedure without a script.
            if let (LexiconKind::Procedure, Some(answer)) = (lexicon.kind, &failure.upstream) {
                return Ok(response::json_bytes(answer.status, answer.body.clone()));
            }
            let input = || shown(&app.script_services.variables, &params, input);
            Err(failed(app, script, lexicon, caller, &tenant, input, &failure, duration))
        }
    }
}

/// Tells the operator everything, within the tenant's share of the logs, and the caller one of the specification's texts.
#[expect(clippy::too_many_arguments, reason = "each of them is told to the operator")]
fn failed(
    app: &App,
    script: &CompiledScript,
    lexicon: &Lexicon,
    caller: Option<&Did>,
    tenant: &Tenant,
    input: impl FnOnce() -> Value,
    failure: &ScriptFailure,
    duration: Duration,
) -> Error {
    if let Some(wait) = failure.retry_after {
        let seconds = wait.as_secs().saturating_add(1);
        return Error::new(StatusCode::TOO_MANY_REQUESTS, failure.public_text())
            .with_header(RETRY_AFTER, seconds.into());
    }
    if failure.kind == FailureKind::Busy {
        return Error::new(StatusCode::SERVICE_UNAVAILABLE, failure.public_text());
    }
    let method = lexicon.id.as_str();
    // What the event keeps: message, source and input, each cut to some KiB.
    let bytes = failure.message.len() + script.source().len().min(EVENT_BYTES) + EVENT_BYTES;
    let trigger = script.trigger().id().into();
    if !app.script_services.log.admit(tenant, &trigger, bytes, app.clock.now()) {
        return Error::new(StatusCode::INTERNAL_SERVER_ERROR, failure.public_text());
    }
    let input = input();
    tracing::warn!(method, kind = failure.kind.as_str(), error = failure.message, "a script failed");
    app.events.record(Event::ScriptError(Box::new(ScriptError {
        method: lexicon.id.clone(),
        caller: caller.map(Did::to_string),
        error: app.script_services.variables.redact(&failure.message).into_owned(),
        script_source: script.source().to_owned(),
        input,
        duration,
    })));
    Error::new(StatusCode::INTERNAL_SERVER_ERROR, failure.public_text())
}

/// Bytes that the event of a failure keeps of the source, and of the input.
const EVENT_BYTES: usize = 4 << 10;

/// Bytes of an input that is parsed for the event log. The log keeps a small part of it.
const SHOWN_BYTES: usize = 64 << 10;

/// What the run was given, as the event log may have it: body or query string, without what is secret.
fn shown(variables: &Variables, params: &[(String, String)], input: Option<&[u8]>) -> Value {
    let mut value = match input {
        Some(input) if input.len() > SHOWN_BYTES => json!(format!("{} bytes of JSON", input.len())),
        Some(input) => serde_json::from_slice(input).unwrap_or_default(),
        None => json!(params),
    };
    redact::redact(&mut value, &|text| variables.redact(text));
    value
}
