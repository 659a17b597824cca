//! What a caller is told when their PDS did not do what it was asked.

use std::sync::Arc;

use http::StatusCode;

use crate::access::XrpcCaller;
use crate::app::App;
use crate::atproto::Did;
use crate::http::{Error, Response, response};
use crate::pds::{PdsError, Session};

/// The session that the caller's calls to a PDS go through: the one that they proved to hold. With `account`, that of an
/// account which they write for.
///
/// # Errors
/// 401 without a user, without a proof of a session (a service token is none), or when there is no session any more.
pub(super) async fn session(
    app: &App,
    caller: &XrpcCaller,
    account: Option<&Did>,
) -> Result<Arc<Session>, Error> {
    let user = caller.did().ok_or_else(|| Error::unauthorized("authentication required"))?;
    let which = caller.authority().session_of(user, account).ok_or_else(|| {
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

/// A refusal goes on as it is (service.md, Errors); what is not the caller's to repair is a bad gateway.
///
/// # Errors
/// All but a refusal.
pub(super) fn answered(error: PdsError) -> Result<Response, Error> {
    let gateway = |text: &'static str, error: PdsError| {
        tracing::warn!(%error, "a call to a PDS failed");
        Err(Error::new(StatusCode::BAD_GATEWAY, text))
    };
    match error {
        PdsError::Refused(refusal) => Ok(response::json_bytes(refusal.status, refusal.body)),
        PdsError::Ended => Err(Error::unauthorized("session expired, please re-authenticate")),
        PdsError::Busy(full) => Err(Error::new(StatusCode::SERVICE_UNAVAILABLE, full.to_string())),
        error @ PdsError::Net(_) => gateway("the PDS does not answer", error),
        error @ PdsError::Malformed(_) => gateway("the PDS's answer makes no sense", error),
        error @ PdsError::Renewal(_) => gateway("the session can't be renewed now", error),
        error @ PdsError::Credential => Err(Error::internal(error)),
    }
}
