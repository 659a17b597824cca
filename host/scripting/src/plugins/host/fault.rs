//! Makes faults: refusals that a plugin sees as errors.

use crate::plugins::bindings::belvedere::plugin::types::{Fault, FaultCode};
use belvedere_storage::store::StoreError;
use belvedere_wasm::sandbox::Refusal;
use belvedere_web::net::NetError;

pub(super) fn new(code: FaultCode, message: impl Into<String>) -> Fault {
    Fault::new(code, message)
}

impl From<Fault> for Refusal<Fault> {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

pub(super) fn bad_input(message: impl Into<String>) -> Fault {
    new(FaultCode::BadInput, message)
}

pub(super) fn forbidden(message: impl Into<String>) -> Fault {
    new(FaultCode::Forbidden, message)
}

/// A limit of the call is used up; `what` names it.
pub(super) fn quota(what: &str, max: impl std::fmt::Display) -> Fault {
    new(FaultCode::Quota, format!("{what}: a call may have {max}"))
}

/// Maps an error of the database. Its cause is logged, and not shown to the plugin.
pub(super) fn store(function: &str, error: &StoreError) -> Fault {
    match error {
        StoreError::BadValue(_) => bad_input(format!("{function}: a value can't be stored")),
        StoreError::TooSlow => new(FaultCode::TimedOut, format!("{function}: the search took too long")),
        StoreError::Busy(_) => new(FaultCode::RateLimited, format!("{function}: too many searches at once")),
        error => {
            tracing::error!(function, %error, "a plugin's database request failed");
            new(FaultCode::Internal, format!("{function}: the database is unavailable"))
        }
    }
}

/// Maps a request without a response. The text does not contain the addresses that names resolved to.
pub(super) fn no_response(error: &NetError) -> Fault {
    let code = match error {
        NetError::Refused(_) => FaultCode::Forbidden,
        NetError::TooLarge(_) => FaultCode::TooLarge,
        NetError::Timeout => FaultCode::TimedOut,
        NetError::Redirects(_)
        | NetError::Malformed(_)
        | NetError::Status(_)
        | NetError::Dns(_)
        | NetError::Transport(_)
        | NetError::NoMemory
        | NetError::Setup(_) => FaultCode::Upstream,
    };
    new(code, error.to_string())
}
