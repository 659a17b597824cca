//! Answers XRPC calls: by the script bound to the method, or else by what is built in, or through the method's authority.
//!
//! HTTP (`api/xrpc`) and scripts ([`InProcess`]) make a [`Call`] each and pass its [`Answer`] on.

mod blob_hosts;
mod builtin;
mod delegate;
mod forward;
mod in_process;
pub mod pds_session;
mod scripted;
mod write;

use std::sync::Arc;

use crate::app::App;
use crate::atproto::Nsid;
use crate::http::Error;
use crate::scripts::{CompiledScript, Lineage};
use crate::xrpc::{Answer, Call, Verb};

pub use in_process::InProcess;

/// Why a method gave no answer.
#[derive(Debug)]
pub enum Failure {
    /// The caller gets an answer all the same: the status and text of this.
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
            Failure::Unreachable(_) => {
                Self::new(http::StatusCode::BAD_GATEWAY, "the method's authority can't be reached")
            }
        }
    }
}

/// Answers a call that has been admitted and paid for. `lineage` is that of the run that calls, for calls of scripts.
///
/// # Errors
/// As the method says; 404 for a method of another kind, 401 for an anonymous call of a procedure.
pub async fn answer(app: &Arc<App>, call: &Call, lineage: Option<&Lineage>) -> Result<Answer, Failure> {
    let lexicon = app.registry.get(&call.nsid);
    if lexicon.as_ref().is_some_and(|lexicon| lexicon.kind != call.verb.kind()) {
        return Err(Error::not_found("method not found").into());
    }
    if call.verb == Verb::Procedure && call.caller.did.is_none() {
        return Err(Error::unauthorized("authentication required").into());
    }
    let Some(lexicon) = lexicon else { return forward::answer(app, call).await };
    // One lookup a call; the key is the trigger as it is stored.
    let script = app.scripting.library.get(&format!("{}:{}", call.verb.trigger().as_str(), lexicon.id));
    let answer = match (script, call.verb) {
        (Some(script), Verb::Procedure) if call.caller.method_bound && calls_others(&script, &lexicon.id) => {
            let text = "the token is for this method only, and its script calls others";
            Err(Error::unauthorized(text))
        }
        (Some(script), _) => scripted::answer(app, &script, &lexicon, call, lineage).await,
        (None, Verb::Query) => builtin::answer(app, &lexicon, call).await,
        (None, Verb::Procedure) => write::answer(app, &lexicon, call).await,
    };
    Ok(answer?)
}

/// Whether the script of `method` names any other method.
fn calls_others(script: &CompiledScript, method: &Nsid) -> bool {
    script.methods().iter().any(|named| named != method.as_str())
}
