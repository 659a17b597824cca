//! Runs the script bound to a method and answers with what `handle()` returned.

use std::time::{Duration, Instant};

use http::StatusCode;
use http::header::RETRY_AFTER;

use super::params;
use crate::access::XrpcCaller;
use crate::app::App;
use crate::atproto::{Did, Nsid};
use crate::events::{Event, ScriptError};
use crate::http::{Error, Request, Response, response};
use crate::lexicons::Lexicon;
use crate::scripts::{CompiledScript, FailureKind, Invocation, ScriptFailure};

pub(super) async fn query(
    app: &App,
    script: &CompiledScript,
    lexicon: &Lexicon,
    caller: &XrpcCaller,
    request: &Request,
) -> Result<Response, Error> {
    let params = params::collect(request);
    let client = caller.client.as_deref().map(|client| client.id.as_str());
    let caller = caller.did();
    let invocation = Invocation {
        method: Some(lexicon.id.as_str()),
        collection: lexicon.target_collection.as_ref().map(Nsid::as_str),
        caller_did: caller.map(Did::as_str),
        params: Some(&params),
        client,
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
        Err(failure) => Err(failed(app, script, lexicon, caller, params, &failure, duration)),
    }
}

/// Tells the operator everything and the caller one of the specification's texts.
fn failed(
    app: &App,
    script: &CompiledScript,
    lexicon: &Lexicon,
    caller: Option<&Did>,
    params: Vec<(String, String)>,
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
    tracing::warn!(method, kind = failure.kind.as_str(), error = failure.message, "a script failed");
    app.events.record(Event::ScriptError(Box::new(ScriptError {
        method: lexicon.id.clone(),
        caller: caller.map(Did::to_string),
        error: failure.message.clone(),
        script_source: script.source().to_owned(),
        input: serde_json::json!(params),
        duration,
    })));
    Error::new(StatusCode::INTERNAL_SERVER_ERROR, failure.public_text())
}
