//! Makes faults: refusals that a script sees as error objects.

use crate::scripts::bindings::belvedere::script::types::{Fault, FaultCode};
use crate::scripts::services::IndexError;
use belvedere_storage::store::StoreError;
use belvedere_wasm::sandbox::Refusal;
use belvedere_web::net::NetError;

pub(super) fn new(code: FaultCode, message: impl Into<String>) -> Fault {
    Fault { code, message: message.into(), status: None, answer: None }
}

impl From<Fault> for Refusal<Fault> {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

/// A limit of the run is used up; `what` names it.
pub(super) fn limit(what: &str, max: impl std::fmt::Display) -> Fault {
    new(FaultCode::Limit, format!("{what}: a run may have {max}"))
}

pub(super) fn forbidden(message: impl Into<String>) -> Fault {
    new(FaultCode::Forbidden, message)
}

/// Maps an error of the index to a fault. The cause of a failing database is logged, and not shown to the script.
pub(super) fn index(function: &str, error: &IndexError) -> Fault {
    let code = match error {
        IndexError::Invalid(_) => FaultCode::BadInput,
        IndexError::Forbidden(_) => FaultCode::Forbidden,
        IndexError::Limit(_) => FaultCode::Limit,
        IndexError::Unavailable(cause) => {
            tracing::error!(function, error = %cause, "a script's database request failed");
            FaultCode::Unavailable
        }
    };
    new(code, format!("{function}: {error}"))
}

/// Logs the failure of a database, which is not shown to the script.
pub(super) fn database(function: &str, cause: &StoreError) -> Fault {
    tracing::error!(function, error = %cause, "a script's database request failed");
    new(FaultCode::Unavailable, format!("{function}: database unavailable"))
}

/// Maps a request without an answer to a fault. It does not contain the addresses that names resolved to.
pub(super) fn no_response(error: &NetError) -> Fault {
    let code = match error {
        NetError::Refused(_) => FaultCode::Forbidden,
        NetError::TooLarge(_) | NetError::Redirects(_) => FaultCode::Limit,
        NetError::Malformed(_) | NetError::Status(_) => FaultCode::Upstream,
        NetError::Dns(_)
        | NetError::Timeout
        | NetError::NoMemory
        | NetError::Transport(_)
        | NetError::Setup(_) => FaultCode::Unavailable,
    };
    new(code, error.to_string())
}
