//! Resolves the handle in the AT URI of a record that a script reads.

use std::time::Instant;

use super::fault;
use super::state::RunState;
use crate::scripts::bindings::belvedere::script::types::{Fault, FaultCode};
use belvedere_protocol::atproto::HandleUri;

/// The URI with the account's DID. A handle costs a request to another server; any other text is returned unchanged.
pub(super) async fn without_handle(
    state: &mut RunState,
    function: &str,
    uri: String,
) -> Result<String, Fault> {
    if HandleUri::parse(&uri).is_none() {
        return Ok(uri);
    }
    let resolver = state.service(function, |services| services.resolver.clone())?;
    state.outbound.count(1)?;
    let max_wait = state.outbound.time_left()?;
    let started = Instant::now();
    let found = tokio::time::timeout(max_wait, resolver.record_uri(&uri)).await;
    state.outbound.charge(0, started.elapsed());
    match found {
        Ok(Ok(uri)) => Ok(uri.to_string()),
        Ok(Err(error)) => {
            let code = if error.is_temporary() { FaultCode::Unavailable } else { FaultCode::BadInput };
            Err(fault::new(code, format!("{function}: {uri:?}: {error}")))
        }
        Err(_) => {
            let message = format!("{function}: {uri:?}: the handle could not be resolved in time");
            Err(fault::new(FaultCode::Unavailable, message))
        }
    }
}
