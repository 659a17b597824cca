//! `xrpc.*` of scripts: the same methods as over HTTP, in process, as the same caller. They cost the same tokens, and the
//! forwarding rules hold for them too.

use std::sync::{Arc, OnceLock, Weak};

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;

use super::fixed::FixedMethod;
use super::{Failure, WrongKind, dispatch, lexicon_of, query_labels, script_of, spaces};
use crate::access::CalledMethod;
use crate::access::client::CLIENT_KEY_PARAM;
use crate::app::App;
use belvedere_instance::xrpc::{Answer, Call, Verb};
use belvedere_scripting::scripts::{CallOutcome, Lineage, Xrpc, XrpcError};
use belvedere_web::http::{Error, nul};

/// Passes the calls of scripts to the server that runs them. Made before the server, because event scripts are among
/// the first things that it needs; calls are refused until [`InProcess::open`].
#[derive(Debug, Default)]
pub struct InProcess(OnceLock<Weak<App>>);

impl InProcess {
    /// Passes later calls to `app`.
    pub fn open(&self, app: &Arc<App>) {
        // Opened once, at the start.
        let _ = self.0.set(Arc::downgrade(app));
    }
}

impl Xrpc for InProcess {
    fn call(&self, call: Call, lineage: Lineage) -> BoxFuture<'_, Result<CallOutcome, XrpcError>> {
        async move {
            let app = self.0.get().and_then(Weak::upgrade);
            let app =
                app.ok_or_else(|| XrpcError::Unavailable("the server is starting or ending".to_owned()))?;
            nested(&app, call, &lineage).await
        }
        .boxed()
    }
}

async fn nested(app: &Arc<App>, mut call: Call, lineage: &Lineage) -> Result<CallOutcome, XrpcError> {
    call.params.retain(|(name, _)| name != CLIENT_KEY_PARAM);
    if spaces::is_method(&app.config.auth.service_namespace, call.nsid.as_str()) {
        let other =
            || Error::bad_request("scripts use spaces through atproto.spaces, db and Record, not xrpc");
        let answer = refused(&app.spaces.check_enabled().map_or_else(Error::from, |()| other()), &call);
        return Ok(CallOutcome { answer, is_remote: false });
    }
    let fixed = FixedMethod::of(call.verb, &call.nsid);
    // Over HTTP, too, these answer whatever lexicons are uploaded.
    let lexicon = if fixed.is_some() { Ok(None) } else { lexicon_of(app, &call) };
    let lexicon = lexicon.map_err(|WrongKind| {
        let kind = match call.verb {
            Verb::Query => "query",
            Verb::Procedure => "procedure",
        };
        XrpcError::Invalid(format!("{} is not a {kind}", call.nsid))
    })?;
    // The router refuses NUL characters in requests; these calls do not pass it.
    let has_nul = call.params.iter().any(|(name, value)| name.contains('\0') || value.contains('\0'));
    if has_nul || call.input.as_deref().is_some_and(nul::in_json) {
        return Err(XrpcError::Invalid("params and input can't hold a NUL character (U+0000)".to_owned()));
    }
    let is_of_labels = query_labels::is_call(app, &call);
    let is_remote = match fixed {
        Some(_) if script_of(app, &call).is_some() => false,
        // The built-in profile comes from a PDS.
        Some(fixed) => fixed == FixedMethod::GetProfile,
        None => lexicon.is_none() && !is_of_labels,
    };
    let is_fixed = fixed.is_some() || is_of_labels;
    let method = CalledMethod { nsid: call.nsid.as_str(), verb: call.verb, is_fixed };
    if let Err(error) = app.access.charge_nested(&call.caller, method) {
        return Ok(CallOutcome { answer: refused(&error, &call), is_remote });
    }
    // A run that waits for another server takes one of the permits for such runs.
    let _permit = if is_remote {
        Some(app.scripting.web.permit(&call.caller.tenant).await.map_err(|full| {
            XrpcError::Unavailable(format!("too many scripts are waiting for other servers: {full}"))
        })?)
    } else {
        None
    };
    let answered = match fixed {
        Some(fixed) => fixed.answer(app, &call, Some(lineage)).await,
        None if is_of_labels => {
            query_labels::answer(app, &call.caller.tenant, &call.params).await.map_err(Failure::from)
        }
        None => dispatch(app, &call, lexicon, Some(lineage)).await,
    };
    let answer = match answered {
        Ok(answer) => answer,
        Err(Failure::Unreachable(cause)) => return Err(XrpcError::Unavailable(cause.to_string())),
        Err(Failure::Refused(error)) => refused(&error, &call),
    };
    Ok(CallOutcome { answer, is_remote })
}

/// The answer that the caller would have got over HTTP.
fn refused(error: &Error, call: &Call) -> Answer {
    if let Some(cause) = &error.cause {
        tracing::error!(method = call.nsid.as_str(), cause = cause.to_string(), "a nested call failed");
    }
    Answer::of_error(error)
}
