//! `attest`: signatures of the instance over records of the call's account.

use serde_json::Value;

use super::Account;
use super::state::CallState;
use super::{Refusal, fault};
use crate::plugins::bindings::belvedere::plugin::attest::Host;
use crate::plugins::bindings::belvedere::plugin::types::{Fault, FaultCode};
use crate::plugins::limits;
use belvedere_protocol::atproto::Nsid;

/// The field of a record with its signatures.
const SIGNATURES: &str = "signatures";

/// Signatures that a record may have already. More have no use.
const MAX_SIGNATURES: usize = 16;

impl Host for CallState {
    fn available(&mut self) -> wasmtime::Result<bool> {
        Ok(self.account.is_some())
    }

    fn sign(&mut self, value: String, repo: String) -> Result<String, Refusal> {
        Ok(sign(self, &value, &repo)?)
    }

    fn verify(&mut self, value: String, signature: String, repo: String) -> wasmtime::Result<bool> {
        let sizes = value.len() <= limits::RECORD_BYTES
            && signature.len() <= limits::LONG_TEXT_BYTES
            && repo.len() <= limits::TEXT_BYTES;
        if !sizes || self.account.is_none() || self.count_call().is_err() {
            return Ok(false);
        }
        let signature = serde_json::from_str(&signature).unwrap_or(Value::Null);
        Ok(self.services.attestation.verify(value.as_bytes(), &signature, &repo))
    }
}

fn sign(state: &mut CallState, value: &str, repo: &str) -> Result<String, Fault> {
    let account = state.account("attest.sign")?.clone();
    let own = account.did.as_ref().map(|did| did.as_str() == repo);
    match own {
        Some(true) => {}
        Some(false) => {
            return Err(fault::forbidden("attest.sign: the repo is not that of the call's account"));
        }
        None => return Err(fault::new(FaultCode::NotLinked, "attest.sign: the call is about no account")),
    }
    state.count_call()?;
    if value.len() > limits::RECORD_BYTES {
        let text = format!("attest.sign: the record is larger than {} bytes", limits::RECORD_BYTES);
        return Err(fault::new(FaultCode::TooLarge, text));
    }
    let attestation = &state.services.attestation;
    // Checks the record's size, depth and syntax before it is parsed into a tree.
    let signature = attestation
        .sign(value.as_bytes(), repo)
        .map_err(|error| fault::new(FaultCode::InvalidRecord, format!("attest.sign: {error}")))?;
    let mut record: Value =
        serde_json::from_str(value).map_err(|error| fault::bad_input(error.to_string()))?;
    check_type(&account, &record)?;
    let signatures = record
        .as_object_mut()
        .map(|record| record.entry(SIGNATURES).or_insert_with(|| Value::Array(Vec::new())));
    match signatures {
        Some(Value::Array(signatures)) if signatures.len() < MAX_SIGNATURES => signatures.push(signature),
        _ => {
            let text = format!("attest.sign: {SIGNATURES} must be an array of at most {MAX_SIGNATURES}");
            return Err(fault::bad_input(text));
        }
    }
    Ok(record.to_string())
}

/// Whether the plugin may have a record of this type signed: one that it may write. A library that writes none signs for
/// scripts, which write any.
fn check_type(account: &Account, record: &Value) -> Result<(), Fault> {
    let is_library = account.is_callable && account.grants.written_collections().next().is_none();
    let collection = record["$type"].as_str().unwrap_or_default();
    let is_granted = || Nsid::try_from(collection).is_ok_and(|nsid| account.grants.allow_write(&nsid));
    if is_library || is_granted() {
        return Ok(());
    }
    Err(fault::forbidden("attest.sign: the record's $type is no collection that the plugin may write"))
}
