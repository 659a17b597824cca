//! The reasons why a call of a space is refused, with their names and statuses in responses (spaces.md §5, spaces-delta.md §3).

use std::sync::Arc;

use http::StatusCode;

use crate::repos::caller_session::NoSession;
use crate::settings::SPACES_ENABLED;
use belvedere_protocol::atproto::Nsid;
use belvedere_protocol::spaces::r10::policy::Unsupported;
use belvedere_protocol::spaces::r10::token::TokenError;
use belvedere_storage::store::StoreError;
use belvedere_storage::store::index::AccountStatus;
use belvedere_web::http::Error;

/// The reason why a call is refused.
#[derive(Debug, thiserror::Error)]
pub enum SpaceError {
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Spaces are switched off.
    #[error("The feature '{SPACES_ENABLED}' is not currently enabled on this instance")]
    Disabled,
    /// The caller has no session that says what its app may do.
    #[error(transparent)]
    NoSession(#[from] NoSession),
    #[error("This endpoint requires authentication")]
    Anonymous,
    /// It does not exist, or the caller may not know that it does.
    #[error("Space not found")]
    NoSpace,
    #[error("the space exists already, or existed: choose another skey")]
    SpaceExists,
    #[error("Only the space authority can perform this action")]
    NotAdministrator,
    /// The text says what the user lacks.
    #[error("{0}")]
    NotAuthorized(&'static str),
    /// The text names the scope that the app lacks.
    #[error("the app has no scope for this: it needs {0}")]
    Scope(String),
    /// The answer about delegation tokens, instead of [`Self::NoSpace`]: other hosts have spaces that this one does not know.
    #[error("Space not found here. For a space of another host, the PDS of the user issues the token")]
    NotHosted,
    /// A token that is not valid for the call.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// A request for a credential that the space does not grant.
    #[error(transparent)]
    Exchange(#[from] ExchangeError),
    /// The credential was sent to another DID.
    #[error("Atproto-Space-Audience must be {0}, which answers this call")]
    Audience(String),
    #[error("no commit exists for this repo")]
    NoRepo,
    /// The account of the author is not active.
    #[error("the account of this repo is {}", .0.as_str())]
    Hidden(AccountStatus),
    #[error("the record does not exist")]
    NoRecord,
    #[error("a record with this key exists")]
    RecordExists,
    #[error("Record CID mismatch")]
    OtherVersion,
    #[error("swapCommit mismatch")]
    OtherCommit,
    #[error("collection '{0}' is not allowed in this space")]
    Collection(Nsid),
    #[error("several authors have a record with this key: name one in repo")]
    Ambiguous,
    #[error("You can only write to your own repo")]
    OtherRepo,
    #[error("{0}")]
    Invalid(String),
    #[error(transparent)]
    Unsupported(#[from] Unsupported),
    #[error("{0}")]
    Conflict(&'static str),
    #[error("{0}")]
    NotFound(&'static str),
    /// The text says why.
    #[error("the service can't be resolved: {0}")]
    NoService(String),
    #[error("only the authority of the space may send this")]
    NotAuthority,
    #[error("the rev is more than five minutes in the future")]
    FutureRev,
    #[error("too many attempts: wait a minute")]
    TooManyAttempts,
    /// The host of a space that the user asks to follow gives it no credential.
    #[error("{0}")]
    HostRefuses(String),
    #[error("the host of the space can't be asked: {0}")]
    HostFails(Arc<str>),
    #[error("the space is being copied from its host: try again in a moment")]
    Copying,
    #[error("too many repos are being exported: try again later")]
    Busy,
    #[error("inspections are switched off: the setting space_inspector_enabled switches them on")]
    InspectorDisabled,
    #[error(
        "this needs an inspection of the space, or of the account, that is granted to you and has not ended"
    )]
    GrantRequired,
}

/// The reason why a space does not grant a credential. In responses: 400 with its name.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
pub enum ExchangeError {
    #[error("this server hosts no such space")]
    NoSpace,
    #[error("the space is deleted")]
    Deleted,
    #[error("space requires client attestation")]
    NoAttestation,
    #[error("this app is not authorized for the space")]
    App,
    #[error("the user may not read the space")]
    User,
}

impl ExchangeError {
    fn name(self) -> &'static str {
        match self {
            Self::NoSpace => "SpaceNotFound",
            Self::Deleted => "SpaceDeleted",
            Self::NoAttestation | Self::App => "AppNotAuthorized",
            Self::User => "UserNotAuthorized",
        }
    }
}

/// The status of the response to a token that is refused.
pub fn token_status(error: TokenError) -> StatusCode {
    StatusCode::from_u16(error.status()).unwrap_or(StatusCode::UNAUTHORIZED)
}

impl SpaceError {
    pub(super) fn invalid(text: impl ToString) -> Self {
        Self::Invalid(text.to_string())
    }

    /// The status and the name in a response.
    fn response(&self) -> (StatusCode, &'static str) {
        match self {
            Self::Store(_) => (StatusCode::INTERNAL_SERVER_ERROR, "InternalServerError"),
            Self::Disabled => (StatusCode::NOT_FOUND, "FeatureDisabled"),
            Self::Anonymous | Self::NoSession(_) => (StatusCode::UNAUTHORIZED, "AuthenticationRequired"),
            Self::Audience(_) => (StatusCode::UNAUTHORIZED, "BadSpaceAudience"),
            Self::NoSpace | Self::NotHosted => (StatusCode::NOT_FOUND, "SpaceNotFound"),
            Self::Token(error) => (token_status(*error), error.name()),
            Self::Exchange(error) => (StatusCode::BAD_REQUEST, error.name()),
            Self::NoRepo | Self::Hidden(AccountStatus::Active | AccountStatus::Deleted) => {
                (StatusCode::NOT_FOUND, "RepoNotFound")
            }
            Self::Hidden(AccountStatus::TakenDown) => (StatusCode::BAD_REQUEST, "RepoTakendown"),
            Self::Hidden(AccountStatus::Suspended) => (StatusCode::BAD_REQUEST, "RepoSuspended"),
            Self::Hidden(AccountStatus::Deactivated) => (StatusCode::BAD_REQUEST, "RepoDeactivated"),
            Self::NoRecord => (StatusCode::NOT_FOUND, "RecordNotFound"),
            Self::NotFound(_) => (StatusCode::NOT_FOUND, "NotFound"),
            Self::NotAdministrator => (StatusCode::FORBIDDEN, "NotSpaceOwner"),
            Self::NotAuthority => (StatusCode::FORBIDDEN, "Forbidden"),
            Self::NotAuthorized(_) | Self::OtherRepo | Self::HostRefuses(_) => {
                (StatusCode::FORBIDDEN, "NotAuthorized")
            }
            Self::HostFails(_) => (StatusCode::BAD_GATEWAY, "UpstreamFailure"),
            Self::Copying => (StatusCode::SERVICE_UNAVAILABLE, "NotCopied"),
            Self::Scope(_) => (StatusCode::FORBIDDEN, "InsufficientScope"),
            Self::SpaceExists => (StatusCode::CONFLICT, "SpaceAlreadyExists"),
            Self::RecordExists => (StatusCode::CONFLICT, "RecordAlreadyExists"),
            Self::OtherVersion | Self::OtherCommit => (StatusCode::CONFLICT, "InvalidSwap"),
            Self::Conflict(_) => (StatusCode::CONFLICT, "Conflict"),
            Self::Collection(_) | Self::Ambiguous | Self::Invalid(_) => {
                (StatusCode::BAD_REQUEST, "InvalidRequest")
            }
            Self::NoService(_) => (StatusCode::BAD_REQUEST, "ServiceNotResolvable"),
            Self::FutureRev => (StatusCode::BAD_REQUEST, "FutureRev"),
            Self::Unsupported(error) => (StatusCode::BAD_REQUEST, error.name()),
            Self::Busy => (StatusCode::SERVICE_UNAVAILABLE, "Overloaded"),
            Self::InspectorDisabled => (StatusCode::FORBIDDEN, "SpaceInspectorDisabled"),
            Self::GrantRequired => (StatusCode::FORBIDDEN, "SpaceAccessGrantRequired"),
            Self::TooManyAttempts => (StatusCode::TOO_MANY_REQUESTS, "RateLimitExceeded"),
        }
    }
}

impl From<SpaceError> for Error {
    fn from(error: SpaceError) -> Self {
        if let SpaceError::Store(error) = error {
            return Self::from(error);
        }
        let (status, name) = error.response();
        Self::new(status, name).with_message(error.to_string())
    }
}
