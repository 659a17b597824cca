//! The profiles of accounts, for `db.profiles`.

use std::collections::BTreeMap;
use std::time::Instant;

use serde::Serialize;
use serde_json::value::RawValue;

use super::state::RunState;
use super::{arguments, fault};
use crate::scripts::bindings::belvedere::script::types::Fault;
use crate::scripts::limits;
use crate::scripts::services::Profile;

/// A profile as the script gets it.
#[derive(Serialize)]
struct Shown<'a> {
    did: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    handle: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    uri: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cid: Option<String>,
    /// The stored text.
    #[serde(skip_serializing_if = "Option::is_none")]
    record: Option<&'a RawValue>,
}

impl<'a> Shown<'a> {
    fn new(profile: &'a Profile) -> Self {
        let Profile { did, handle, record, .. } = profile;
        let record = record.as_ref();
        Self {
            did: did.as_str(),
            handle: handle.as_deref(),
            uri: record.map(|full| full.row.uri()),
            cid: record.and_then(|full| full.row.cid).map(|cid| cid.to_string()),
            record: record.and_then(|full| serde_json::from_slice(&full.row.record).ok()),
        }
    }
}

/// The profiles as JSON, by DID.
pub(super) async fn read(state: &mut RunState, texts: &[String]) -> Result<Vec<u8>, Fault> {
    let function = "db.profiles";
    let profiles = state.database(function, |services| services.profiles.clone())?;
    let dids = arguments::dids(function, texts, limits::PROFILE_DIDS)?;
    if dids.is_empty() {
        return Ok(b"{}".to_vec());
    }
    let max_bytes = limits::LOAD_BYTES.min(usize::try_from(state.row_bytes_left()).unwrap_or(usize::MAX));
    let (tenant, started) = (state.tenant().clone(), Instant::now());
    let found = profiles.of(&tenant, dids, max_bytes).await;
    state.spend_on_database(started.elapsed());
    let found = found.map_err(|error| fault::index(function, &error))?;
    let shown: BTreeMap<&str, Shown<'_>> =
        found.iter().map(|profile| (profile.did.as_str(), Shown::new(profile))).collect();
    // Texts serialize.
    let json = serde_json::to_vec(&shown).unwrap_or_default();
    state.count_rows(found.len(), json.len())?;
    Ok(json)
}
