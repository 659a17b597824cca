//! Answers XRPC calls: by the method's script or view, by the built-in behaviour, or through the method's authority.
//!
//! HTTP (`api/xrpc`) and scripts ([`InProcess`]) make a [`Call`] each and pass its [`Answer`] on.

mod builtin;
mod delegate;
mod describe_server;
pub mod dry_run;
pub mod fixed;
mod forward;
pub mod get_profile;
mod in_process;
pub mod live;
mod own_pds;
pub mod pds_session;
pub mod query_labels;
mod reading;
mod scripted;
pub mod spaces;
mod typed_call;
mod view;
mod write;

use std::sync::Arc;

use bytes::Bytes;
use serde::de::IgnoredAny;

use crate::access::Sender;
use crate::app::App;
use belvedere_instance::identity::Resolver;
use belvedere_instance::lexicons::Lexicon;
use belvedere_instance::xrpc::{Answer, Call, Caller, Verb};
use belvedere_protocol::atproto::{AtIdentifier, Did, Handle, HandleUri, Nsid, RecordUri};
use belvedere_scripting::scripts::{CompiledScript, Lineage};
use belvedere_web::http::Error;

use fixed::FixedMethod;
pub use in_process::InProcess;
use reading::Reading;
use typed_call::TypedCall;

/// The reason why a call failed.
#[derive(Debug)]
pub enum Failure {
    /// The caller receives this status and text.
    Refused(Error),
    /// The method's authority can't be reached.
    Unreachable(Box<dyn std::error::Error + Send + Sync>),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Refused(error) => error,
            Failure::Unreachable(_) => Self::new(
                http::StatusCode::BAD_GATEWAY,
                "the server that answers this method can't be reached",
            ),
        }
    }
}

/// The method has a lexicon here, of another kind than the call.
#[derive(Debug)]
struct WrongKind;

/// The lexicon of the called method; `None` for a method without one here.
fn lexicon_of(app: &App, call: &Call) -> Result<Option<Arc<Lexicon>>, WrongKind> {
    let lexicon = app.registry.get(call.nsid.as_str());
    if lexicon.as_ref().is_some_and(|lexicon| lexicon.kind != call.verb.kind()) {
        Err(WrongKind)
    } else {
        Ok(lexicon)
    }
}

/// Answers a call over HTTP that has been admitted and charged.
///
/// # Errors
/// The method's own errors; 404 for a method of another kind, 401 for an anonymous call of a procedure.
pub async fn answer(app: &Arc<App>, call: &Call) -> Result<Answer, Failure> {
    if let Some(service) = &call.headers.service {
        return forward::to_service(app, call, service).await;
    }
    if let Some(fixed) = FixedMethod::of(call.verb, &call.nsid) {
        return fixed.answer(app, call, None).await;
    }
    let lexicon = lexicon_of(app, call).map_err(|WrongKind| Error::not_found("method not found"))?;
    dispatch(app, call, lexicon, None).await
}

/// Answers a call of a method with this lexicon. `lineage` is that of the run that answers, for calls of scripts.
async fn dispatch(
    app: &Arc<App>,
    call: &Call,
    lexicon: Option<Arc<Lexicon>>,
    lineage: Option<&Lineage>,
) -> Result<Answer, Failure> {
    if call.verb == Verb::Procedure && call.caller.did.is_none() {
        return Err(Error::unauthorized("authentication required").into());
    }
    let Some(lexicon) = lexicon else { return forward::answer(app, call).await };
    let typed = TypedCall::new(app, call)?;
    let answer = match (script_of(app, call), call.verb) {
        (Some(script), Verb::Procedure)
            if call.caller.method_bound && calls_others(app, &script, &lexicon.id) =>
        {
            let text = "the token is for this method only, and its script calls others";
            Err(Error::unauthorized(text))
        }
        (Some(script), _) => scripted::answer(app, &script, Some(&lexicon), &typed, lineage).await,
        (None, Verb::Query) => {
            let reading = Reading::of_call(app, lineage.is_none_or(Lineage::may_lag));
            query(app, &lexicon, &typed, &reading).await
        }
        (None, Verb::Procedure) => write::answer(app, &lexicon, &typed).await,
    };
    Ok(answer?)
}

/// Answers a query without a script: with its view, or with the built-in list.
async fn query(
    app: &App,
    lexicon: &Lexicon,
    typed: &TypedCall<'_>,
    reading: &Reading,
) -> Result<Answer, Error> {
    match app.scripting.views.get(typed.call.nsid.as_str()) {
        Some(stored) => view::answer(app, &stored, typed, reading).await,
        None => builtin::answer(app, lexicon, typed, reading).await,
    }
}

/// The account that a parameter of a call names, by its DID or handle. The look-up of a handle is charged.
///
/// # Errors
/// 400 for other texts, and those of the look-up.
pub async fn account_named(app: &App, caller: &Caller, name: &str, text: &str) -> Result<Did, Error> {
    let account = AtIdentifier::parse(text)
        .ok_or_else(|| Error::bad_request(format!("{name} is neither a DID nor a handle")))?;
    Reading::of_call(app, true).account_of(app, caller, name, account).await
}

/// The record that a caller names by its AT URI, in which a handle may stand for the DID. The look-up of a handle is charged.
///
/// # Errors
/// 400 for other texts, and those of the look-up.
pub async fn record_named(app: &App, caller: &Caller, text: &str) -> Result<RecordUri, Error> {
    let resolver = Reading::of_call(app, true).resolver;
    if let Some(named) = HandleUri::parse(text) {
        pay_for_handle(app, &resolver, caller, &named.handle)?;
    }
    Ok(resolver.record_uri(text).await?)
}

/// Charges the look-up of a handle that a caller names, unless its account is known.
fn pay_for_handle(app: &App, resolver: &Resolver, caller: &Caller, handle: &Handle) -> Result<(), Error> {
    if resolver.asks_domain_of(handle) {
        Sender::of_tenant(&app.access, &caller.tenant).pay_handle_look_up(handle)?;
    }
    Ok(())
}

/// Whether a script answers a call of one of the server's own methods.
pub fn is_scripted(app: &App, call: &Call) -> bool {
    script_of(app, call).is_some()
}

/// Whether a query has an answer without a target collection: a script's, a view's, or the server's own.
pub fn answers_without_target(app: &App, query: &str) -> bool {
    FixedMethod::has_name(query)
        || app.scripting.runtime.scripts.get(&format!("{}:{query}", Verb::Query.trigger().as_str())).is_some()
        || app.scripting.views.get(query).is_some()
}

/// The script of the called method, in the version that the caller runs. One lookup; the key is the trigger as it is stored.
fn script_of(app: &App, call: &Call) -> Option<Arc<CompiledScript>> {
    let id = format!("{}:{}", call.verb.trigger().as_str(), call.nsid);
    app.scripting.runtime.scripts.get_for(&id, &call.caller)
}

/// The input of a call, checked to be JSON.
fn json_input(call: &Call) -> Result<Option<&Bytes>, Error> {
    if let Some(input) = &call.input {
        serde_json::from_slice::<IgnoredAny>(input)
            .map_err(|error| Error::bad_request(format!("the body is not JSON: {error}")))?;
    }
    Ok(call.input.as_ref())
}

/// Whether the script of `method`, or a library that it requires, names any other method.
fn calls_others(app: &App, script: &CompiledScript, method: &Nsid) -> bool {
    app.scripting.runtime.scripts.all().calls_any(script, |named| named != method.as_str())
}
