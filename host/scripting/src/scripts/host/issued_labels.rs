//! `labels.apply` and `labels.negate`: labels that this instance issues as a labeler.

use super::fault;
use super::state::RunState;
use crate::scripts::bindings::belvedere::script::types::{Fault, FaultCode};
use crate::scripts::dry_run::DryWrite;
use belvedere_base::clock::Timestamp;
use belvedere_instance::labels::{IssueError, LabelRequest};

/// Issues a label. Returns whether it changed anything.
pub(super) async fn issue(state: &mut RunState, request: &LabelRequest) -> Result<bool, Fault> {
    let function = function(request.neg);
    let issuer = state.service(function, |services| services.labels.as_ref()?.issuer())?;
    state.may_change(function)?;
    if let Some(dry_run) = state.dry_run() {
        issuer.check(request).map_err(|error| refused(function, &error))?;
        let LabelRequest { uri, val, cid, neg, exp } = request;
        let (cid, exp) = (cid.as_deref(), exp.map(|exp| exp.to_string()));
        dry_run.write(&DryWrite::LabelIssue { uri, val, cid, neg: *neg, exp });
        return Ok(true);
    }
    let issued = issuer.issue(request, &state.info.trigger).await;
    Ok(issued.map_err(|error| refused(function, &error))?.is_some())
}

/// Reads the time at which a label expires; an empty text is none.
pub(super) fn expiry(text: &str, neg: bool) -> Result<Option<Timestamp>, Fault> {
    if text.is_empty() {
        return Ok(None);
    }
    let bad = |_| fault::new(FaultCode::BadInput, format!("{}: exp is not a time", function(neg)));
    Timestamp::parse(text).map(Some).map_err(bad)
}

fn function(neg: bool) -> &'static str {
    if neg { "labels.negate" } else { "labels.apply" }
}

fn refused(function: &str, error: &IssueError) -> Fault {
    let code = match error {
        IssueError::NoLabeler => FaultCode::Forbidden,
        IssueError::Label(_) | IssueError::Expired => FaultCode::BadInput,
        IssueError::Store(cause) => return fault::database(function, cause),
    };
    fault::new(code, format!("{function}: {error}"))
}
