//! The reason why a request about an account failed.

use http::StatusCode;

use super::super::calls::{CallError, FaultCode};
use super::check;
use belvedere_protocol::crypto::seal::SealError;
use belvedere_storage::store::StoreError;
use belvedere_web::http::Error;

/// The reason why a request about an account failed.
#[derive(Debug, thiserror::Error)]
pub enum AccountError {
    /// 404.
    #[error("there is no plugin {0:?} that links accounts; GET /external-auth/providers lists them")]
    UnknownPlugin(String),
    /// 404.
    #[error("you have not linked an account of this plugin")]
    NotLinked,
    /// 400: the plugin links accounts in another way, or has no sync.
    #[error("{0}")]
    OtherKind(&'static str),
    /// 400.
    #[error("{0}")]
    BadInput(String),
    /// 400: the state is unknown, expired, used, or of another plugin or browser.
    #[error(
        "the sign-in is unknown or has expired, was completed before, or began in another browser: begin again"
    )]
    State,
    /// 409.
    #[error("the service no longer accepts the account's tokens: link the account again")]
    Expired,
    /// 404: the plugin was removed in the meantime.
    #[error("the plugin is not installed any more")]
    Removed,
    /// 409: another request has linked or unlinked an account at the same moment.
    #[error("the account is being linked or unlinked by another request: try again")]
    Raced,
    /// 503.
    #[error("the plugin is paused because it failed too often: its operator can resume it")]
    Paused,
    /// 503: the tokens are being refreshed by another request, which does not end.
    #[error("the account's tokens are being refreshed: try again")]
    Refreshing,
    /// 502, or 400 where the plugin names the input as the cause.
    #[error(transparent)]
    Call(#[from] CallError),
    /// 502: the plugin's answer can't be used.
    #[error("the plugin's answer can't be used: {0}")]
    Answer(String),
    /// 500.
    #[error("the account's tokens can't be opened: {0}")]
    Sealed(#[from] SealError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl AccountError {
    /// The text for the user, without causes that are only for the operator.
    pub fn public_text(&self) -> String {
        match self {
            Self::Call(CallError::Fault(fault)) => check::shown(&fault.message),
            Self::Call(CallError::Failed(failure)) => format!("the plugin failed: {}", failure.cause),
            Self::Sealed(_) | Self::Store(_) => "internal server error".to_owned(),
            other => other.to_string(),
        }
    }

    /// The fault, if the plugin reported one.
    pub(super) fn fault_code(&self) -> Option<FaultCode> {
        match self {
            Self::Call(CallError::Fault(fault)) => Some(fault.code),
            _ => None,
        }
    }
}

impl From<AccountError> for Error {
    fn from(error: AccountError) -> Self {
        let text = error.public_text();
        let status = match error {
            AccountError::UnknownPlugin(_) | AccountError::NotLinked | AccountError::Removed => {
                StatusCode::NOT_FOUND
            }
            AccountError::OtherKind(_) | AccountError::BadInput(_) | AccountError::State => {
                StatusCode::BAD_REQUEST
            }
            AccountError::Expired | AccountError::Raced => StatusCode::CONFLICT,
            AccountError::Paused
            | AccountError::Refreshing
            | AccountError::Call(CallError::Busy | CallError::Paused) => StatusCode::SERVICE_UNAVAILABLE,
            AccountError::Call(CallError::Unsupported(_)) => StatusCode::BAD_REQUEST,
            // The plugin's own log and events have the details of a failure.
            AccountError::Call(CallError::Failed(_) | CallError::Fault(_)) | AccountError::Answer(_) => {
                StatusCode::BAD_GATEWAY
            }
            AccountError::Sealed(cause) => return Self::internal(cause),
            AccountError::Store(cause) => return cause.into(),
        };
        Self::new(status, text)
    }
}
