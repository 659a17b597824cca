//! Validates a script before it is stored.

use http::StatusCode;

use crate::http::Error;
use crate::scripts::{CompiledScript, Engine, FailureKind};
use crate::trigger::Trigger;

/// Maximum bytes of a description.
const MAX_DESCRIPTION: usize = 300;

/// Loads the script once in a bare sandbox, as every run of it will: it must load and define `handle`.
pub(super) async fn check_source(
    engine: &Engine,
    trigger: Trigger,
    source: &str,
) -> Result<CompiledScript, Error> {
    engine.check(trigger, source).await.map_err(|failure| match failure.kind {
        FailureKind::Busy => Error::new(StatusCode::SERVICE_UNAVAILABLE, failure.public_text()),
        FailureKind::Internal => Error::internal(failure),
        _ => Error::bad_request(format!("the script does not load: {}", failure.message)),
    })
}

pub(super) fn check_type(script_type: &str) -> Result<(), Error> {
    if script_type == "lua" {
        return Ok(());
    }
    Err(Error::bad_request(format!("script_type must be lua, not {script_type}")))
}

/// An empty description counts as none.
pub(super) fn check_description(description: Option<String>) -> Result<Option<String>, Error> {
    match description {
        Some(text) if text.len() > MAX_DESCRIPTION => {
            Err(Error::bad_request(format!("description is longer than {MAX_DESCRIPTION} bytes")))
        }
        other => Ok(other.filter(|text| !text.is_empty())),
    }
}

/// The XRPC methods that a script names; `None` when there are none.
pub(super) fn outbound_xrpcs(script: &CompiledScript) -> Option<Vec<String>> {
    Some(script.methods().to_vec()).filter(|methods| !methods.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptions_are_limited_and_empty_is_none() {
        assert_eq!(check_description(Some(String::new())).unwrap(), None);
        assert!(check_description(Some("x".repeat(300))).unwrap().is_some());
        assert_eq!(check_description(Some("x".repeat(301))).unwrap_err().status, 400);
    }
}
