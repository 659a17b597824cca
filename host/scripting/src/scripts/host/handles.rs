//! Resolves handles that a script names, and finds the handles of accounts.

use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use super::arguments::invalid;
use super::fault;
use super::state::RunState;
use crate::scripts::bindings::belvedere::script::types::{Fault, FaultCode};
use crate::scripts::limits;
use crate::scripts::services::store_error;
use belvedere_instance::identity::{HandleError, Handles};
use belvedere_protocol::atproto::{AtIdentifier, Did, Handle, HandleUri};

/// The URI of a record with the account's DID. A handle costs a request to another server; any other text is returned
/// unchanged.
pub(super) async fn without_handle(
    state: &mut RunState,
    function: &str,
    uri: String,
) -> Result<String, Fault> {
    if HandleUri::parse(&uri).is_none() {
        return Ok(uri);
    }
    with_did(state, function, uri).await
}

/// Like [`without_handle`], for the URI of a record or of an account.
pub(super) async fn with_did(state: &mut RunState, function: &str, uri: String) -> Result<String, Fault> {
    let Some((handle, path)) = AtIdentifier::handle_of_uri(&uri) else { return Ok(uri) };
    match look_up(state, function, &handle).await? {
        Ok(did) => Ok(format!("at://{did}{path}")),
        Err(error) => Err(invalid(function, format!("{uri:?}: the account in the AT URI: {error}"))),
    }
}

/// The account of the argument `did`, which may be a handle.
pub(super) async fn account(
    state: &mut RunState,
    function: &str,
    named: Option<String>,
) -> Result<Option<Did>, Fault> {
    let Some(text) = named else { return Ok(None) };
    match AtIdentifier::parse(&text) {
        Some(AtIdentifier::Did(did)) => Ok(Some(did)),
        Some(AtIdentifier::Handle(handle)) => match look_up(state, function, &handle).await? {
            Ok(did) => Ok(Some(did)),
            Err(error) => Err(invalid(function, format!("did {text:?}: {error}"))),
        },
        None => Err(invalid(function, format!("did {text:?} is neither a DID nor a handle"))),
    }
}

/// The account of a handle; `None` when it has none. A DID is returned unchanged.
pub(super) async fn resolve(state: &mut RunState, function: &str, text: &str) -> Result<Option<Did>, Fault> {
    match AtIdentifier::parse(text) {
        Some(AtIdentifier::Did(did)) => Ok(Some(did)),
        Some(AtIdentifier::Handle(handle)) => Ok(look_up(state, function, &handle).await?.ok()),
        None => Err(invalid(function, format!("{text:?} is not a handle"))),
    }
}

/// Looks up a handle for a counted call. The inner error says that it has no account.
async fn look_up(
    state: &mut RunState,
    function: &str,
    handle: &Handle,
) -> Result<Result<Did, HandleError>, Fault> {
    let (resolver, budget) = state
        .service(function, |services| Some((services.resolver.clone()?, services.handle_budget.clone())))?;
    state.outbound.count(1)?;
    let max_wait = state.outbound.time_left()?;
    let is_paid =
        !resolver.asks_domain_of(handle) || budget.is_none_or(|budget| budget.pay(state.tenant(), handle));
    let started = Instant::now();
    let found = if is_paid {
        let found = tokio::time::timeout(max_wait, resolver.account_for_read(handle.as_str())).await;
        found.unwrap_or(Err(HandleError::Slow))
    } else {
        Err(HandleError::TooMany)
    };
    state.outbound.charge(0, started.elapsed());
    match found {
        Err(error) if error.is_temporary() => Err(unknown(function, handle, &error)),
        found => Ok(found),
    }
}

/// The verified handles of accounts, as JSON: `{handles, failed}`. Fails when no account could be looked up.
pub(super) async fn of_accounts(
    state: &mut RunState,
    function: &str,
    dids: &[Did],
) -> Result<Vec<u8>, Fault> {
    let (people, resolver, budget) = state.database(function, |services| {
        Some((services.people.clone()?, services.resolver.clone()?, services.handle_budget.clone()))
    })?;
    let started = Instant::now();
    let stored = people.stored(dids).await;
    state.spend_on_database(started.elapsed());
    let stored = stored.map_err(|error| fault::index(function, &store_error(error)))?;
    let mut max_wait = Duration::ZERO;
    if !stored.missing.is_empty() {
        state.outbound.count(1)?;
        max_wait = state.outbound.time_left()?.min(limits::HANDLES_TIME);
    }
    for did in &stored.missing {
        // A document that is fetched costs as much as `atproto.resolve_service_endpoint`.
        if resolver.known(did).await.is_none() {
            state.count_call()?;
        }
    }
    let (tenant, keeps) = (state.tenant().clone(), state.dry_run().is_none());
    let pay = |handle: &Handle| budget.as_ref().is_none_or(|budget| budget.pay(&tenant, handle));
    let started = Instant::now();
    let Handles { verified, failed, .. } = people.complete(stored, pay, max_wait, keeps).await;
    state.outbound.charge(0, started.elapsed());
    if let [(did, error), ..] = &failed[..]
        && failed.len() == dids.len()
    {
        return Err(unknown(function, did, error));
    }
    let handles: Map<String, Value> =
        verified.into_iter().map(|(did, handle)| (did.to_string(), handle.into())).collect();
    let failed: Vec<String> = failed.into_iter().map(|(did, _)| did.to_string()).collect();
    Ok(json!({ "handles": handles, "failed": failed }).to_string().into_bytes())
}

/// The fault of a look-up that may succeed later.
fn unknown(function: &str, named: impl std::fmt::Display, error: &HandleError) -> Fault {
    let code = if matches!(error, HandleError::TooMany) { FaultCode::Limit } else { FaultCode::Unavailable };
    fault::new(code, format!("{function}: {named}: {error}"))
}
