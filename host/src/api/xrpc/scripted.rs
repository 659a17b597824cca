//! Runs the script bound to a method and answers with what `handle()` returned.

use http::StatusCode;

use super::params;
use crate::access::XrpcCaller;
use crate::app::App;
use crate::events::{Event, ScriptError};
use crate::http::{Error, Request, Response, response};
use crate::lexicons::Lexicon;
use crate::scripts::{CompiledScript, Invocation, ScriptFailure};

pub(super) async fn query(
    app: &App,
    script: &CompiledScript,
    lexicon: &Lexicon,
    caller: &XrpcCaller,
    request: &Request,
) -> Result<Response, Error> {
    let params = params::collect(request);
    let invocation = Invocation::query(lexicon, caller.did(), &params);
    let started = std::time::Instant::now();
    let result = app.engine.run(script, invocation, app.script_services()).await;
    let duration = started.elapsed();
    match result {
        Ok(body) => {
            app.events.record_verbose(|| Event::ScriptExecuted {
                caller: caller.did().map(ToString::to_string),
                method: lexicon.id.to_string(),
                duration,
                response_size: body.len(),
            });
            Ok(response::json_bytes(StatusCode::OK, body))
        }
        Err(failure) if failure.is_busy() => {
            Err(Error::new(StatusCode::SERVICE_UNAVAILABLE, "all script instances are busy; try again"))
        }
        Err(failure) => {
            tracing::warn!(
                method = lexicon.id.as_str(),
                kind = ?failure.kind,
                error = failure.message,
                request_id = request.id,
                "a script failed"
            );
            let public = public(&failure);
            app.events.record(Event::ScriptError(Box::new(ScriptError {
                method: lexicon.id.clone(),
                caller: caller.did().map(ToString::to_string),
                error: failure.message,
                script_source: script.source().to_owned(),
                input: serde_json::Value::Object(params),
                duration,
            })));
            Err(public)
        }
    }
}

/// The specification's two texts; what went wrong is the operator's to know.
fn public(failure: &ScriptFailure) -> Error {
    Error::new(StatusCode::INTERNAL_SERVER_ERROR, failure.public_text())
}
