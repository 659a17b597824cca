//! The caller's session with their PDS, and what a call that failed there means for the caller.

use std::sync::Arc;

use http::StatusCode;

use crate::app::App;
use crate::atproto::Did;
use crate::http::Error;
use crate::pds::{PdsError, Session};
use crate::xrpc::{Answer, Caller};

/// The session that the caller's calls to a PDS go through: the one whose possession they proved. With `account`, the
/// session of an account that they write for.
///
/// # Errors
/// 401 for an anonymous call, without a proof of a session (a service token is none), or when the session has ended.
pub async fn of(app: &App, caller: &Caller, account: Option<&Did>) -> Result<Arc<Session>, Error> {
    let user = caller.did.as_ref().ok_or_else(|| Error::unauthorized("authentication required"))?;
    let which = caller.authority.session_of(user, account).ok_or_else(|| {
        Error::unauthorized("calls to a PDS take a proof of a session: authenticate with DPoP")
    })?;
    let missing = if account.is_some() {
        "no PDS session is stored for the delegated account"
    } else {
        "no PDS session is stored for this user"
    };
    let session = app.repos.session(which).await?;
    session.ok_or_else(|| Error::unauthorized(missing))
}

/// What a failed call to a PDS becomes: its own answer where it refused (service.md, Errors), else 502 for what the
/// caller can't repair.
///
/// # Errors
/// For everything but a refusal.
pub fn failed(error: PdsError) -> Result<Answer, Error> {
    let gateway = |text: &'static str, error: PdsError| {
        tracing::warn!(%error, "a call to a PDS failed");
        Err(Error::new(StatusCode::BAD_GATEWAY, text))
    };
    match error {
        PdsError::Refused(refusal) => Ok(Answer::json(refusal.status, refusal.body)),
        PdsError::Ended => Err(Error::unauthorized("session expired, please re-authenticate")),
        PdsError::Busy(full) => Err(Error::new(StatusCode::SERVICE_UNAVAILABLE, full.to_string())),
        error @ PdsError::Net(_) => gateway("the PDS does not answer", error),
        error @ PdsError::Malformed(_) => gateway("the PDS's response is invalid", error),
        error @ PdsError::Renewal(_) => gateway("the session can't be renewed now", error),
        error @ PdsError::Credential => Err(Error::internal(error)),
    }
}
