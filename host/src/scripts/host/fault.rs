//! Refusals that a script sees as error objects.

use super::bindings::belvedere::script::types::{Fault, FaultCode};
use crate::scripts::services::IndexError;

pub(super) fn new(code: FaultCode, message: impl Into<String>) -> Fault {
    Fault { code, message: message.into(), status: None, upstream: None }
}

/// A bound of `limits` is used up; `what` names it.
pub(super) fn limit(what: &str, most: impl std::fmt::Display) -> Fault {
    new(FaultCode::Limit, format!("{what}: a run may have {most}"))
}

pub(super) fn forbidden(message: impl Into<String>) -> Fault {
    new(FaultCode::Forbidden, message)
}

/// Turns the index's refusal into the script's; a failing database is told to the log, not to the script.
pub(super) fn index(function: &str, error: &IndexError) -> Fault {
    let code = match error {
        IndexError::Invalid(_) => FaultCode::BadInput,
        IndexError::Forbidden(_) => FaultCode::Forbidden,
        IndexError::Limit(_) => FaultCode::Limit,
        IndexError::Unavailable(cause) => {
            tracing::error!(function, error = %cause, "the database failed a script");
            FaultCode::Unavailable
        }
    };
    new(code, format!("{function}: {error}"))
}
