//! The caller's session with their PDS, and what a call that failed there means for the caller of a method. One rule for
//! built-in methods and scripts.

use std::sync::Arc;

use http::StatusCode;

use super::Repos;
use crate::pds::{PdsError, Session};
use crate::xrpc::{Answer, Caller};
use belvedere_protocol::atproto::Did;
use belvedere_storage::store::StoreError;
use belvedere_web::http::Error;

/// The reason why a caller has no session with a PDS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoSession {
    #[error("authentication required")]
    Anonymous,
    /// A service token is no proof of a session.
    #[error("calls to a PDS take a proof of a session: authenticate with DPoP")]
    Unproven,
    #[error("the job was created without auth")]
    JobWithoutAuth,
    #[error("no PDS session is stored for this user")]
    OfUser,
    #[error("no PDS session is stored for the delegated account")]
    OfDelegate,
}

impl From<NoSession> for Error {
    /// 401 with the reason.
    fn from(reason: NoSession) -> Self {
        Self::unauthorized(reason.to_string())
    }
}

impl Repos {
    /// The session that the caller's calls to a PDS go through: the one whose possession they proved. With `account`,
    /// the session of an account that they write for. The inner error says why there is none.
    ///
    /// # Errors
    /// When the sessions can't be read.
    pub async fn session_of_caller(
        &self,
        caller: &Caller,
        account: Option<&Did>,
    ) -> Result<Result<Arc<Session>, NoSession>, StoreError> {
        let Some(user) = &caller.did else { return Ok(Err(NoSession::Anonymous)) };
        let Some(which) = caller.authority.session_of(user, account) else {
            return Ok(Err(NoSession::Unproven));
        };
        let missing = if account.is_some() { NoSession::OfDelegate } else { NoSession::OfUser };
        Ok(self.session(which).await?.ok_or(missing))
    }
}

/// Maps a failed call to a PDS to a response: its own answer if it refused (service.md, Errors), else 502 if the caller
/// can't repair it, and 500 when this server's database fails.
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
        PdsError::Moved => Err(Error::unauthorized("the account has moved to another PDS: log in again")),
        PdsError::Busy(full) => Err(Error::new(StatusCode::SERVICE_UNAVAILABLE, full.to_string())),
        error @ PdsError::Net(_) => gateway("the PDS does not answer", error),
        error @ PdsError::Malformed(_) => gateway("the PDS's response is invalid", error),
        error @ PdsError::Renewal(_) => gateway("the session can't be renewed now", error),
        error @ PdsError::Unresolved(_) => {
            gateway("the account's PDS can't be determined from its DID document now: try again later", error)
        }
        PdsError::Store(error) => Err(error.into()),
        error @ PdsError::Credential => Err(Error::internal(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oauth::DiscoveryError;
    use crate::pds::RenewError;

    #[test]
    fn a_failing_database_is_our_failure_and_no_failure_of_the_pds() {
        let store = || RenewError::Store(StoreError::Corrupt("x".to_owned()));
        let status = |error| failed(error).unwrap_err().status;
        for error in [PdsError::unresolved(store()), PdsError::renewal(store())] {
            assert_eq!(status(error), StatusCode::INTERNAL_SERVER_ERROR);
        }
        let gone = || RenewError::Discovery(DiscoveryError::NoPds);
        for error in [PdsError::unresolved(gone()), PdsError::renewal(gone())] {
            assert_eq!(status(error), StatusCode::BAD_GATEWAY);
        }
    }
}
