//! Errors that the host understands. Users see their messages, so they must hold no secrets.

use crate::{Fault, FaultCode};

impl Fault {
    pub fn new(code: FaultCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), status: None, body: None, retry_after_ms: None }
    }

    /// The arguments are invalid.
    pub fn bad_input(message: impl Into<String>) -> Self {
        Self::new(FaultCode::BadInput, message)
    }

    /// The service no longer accepts the tokens: the user must link the account again.
    pub fn needs_reauth(message: impl Into<String>) -> Self {
        Self::new(FaultCode::NeedsReauth, message)
    }

    /// The service refuses, or the sign-in was not completed.
    pub fn forbidden(message: impl Into<String>) -> Self {
        Self::new(FaultCode::Forbidden, message)
    }

    /// The service answered with an error, or with something that can't be understood.
    pub fn upstream(message: impl Into<String>) -> Self {
        Self::new(FaultCode::Upstream, message)
    }

    pub fn unsupported(message: impl Into<String>) -> Self {
        Self::new(FaultCode::Unsupported, message)
    }

    /// The operator has something to do, such as setting a secret.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(FaultCode::Internal, message)
    }
}
