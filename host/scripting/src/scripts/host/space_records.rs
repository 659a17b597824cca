//! Records in spaces by their addresses, for `db` and `Record`.

use bytes::Bytes;
use serde_json::{Map, Value};

use super::arguments::{check_lengths, invalid};
use super::rows::pack_of_space;
use super::state::RunState;
use super::{fault, json, report, spaces};
use crate::scripts::bindings::belvedere::script::repo::{Loaded, Written};
use crate::scripts::bindings::belvedere::script::types::Fault;
use belvedere_instance::pds::{self, WriteAction};
use belvedere_instance::spaces::{RecordWrite, SpaceError, WriteKind, WriteRequest, WrittenRecord};
use belvedere_protocol::atproto::record::MAX_RECORD_BYTES;
use belvedere_protocol::atproto::{Cid, Did};
use belvedere_protocol::spaces::{SpaceRecordUri, SpaceUri};
use belvedere_storage::store::spaces::records::SpaceRecord;

/// The packed record at an address.
pub(super) async fn get(state: &mut RunState, function: &str, uri: &String) -> Result<Vec<u8>, Fault> {
    match find(state, function, uri).await? {
        Some((space, record)) => pack_of_space(state, &space, std::slice::from_ref(&record)),
        None => Ok(Vec::new()),
    }
}

/// The record at an address, for `Record.load`.
pub(super) async fn load(state: &mut RunState, position: u32, uri: String) -> Result<Option<Loaded>, Fault> {
    let Some((space, record)) = find(state, "Record", &uri).await? else { return Ok(None) };
    let value = record.text.unwrap_or_default().into_bytes();
    state.count_rows(1, value.len())?;
    let (space, cid) = (Some(space.to_string()), Some(record.cid.to_string()));
    Ok(Some(Loaded { position, uri, space, cid, value }))
}

/// `None` when the record does not exist, or the caller may not know that it does.
async fn find(
    state: &mut RunState,
    function: &str,
    uri: &String,
) -> Result<Option<(SpaceUri, SpaceRecord)>, Fault> {
    check_lengths(function, &[Some(uri)])?;
    let uri = SpaceRecordUri::parse(uri).map_err(|error| invalid(function, error))?;
    let found = spaces::call(state, function, async |spaces, viewer| {
        match spaces.record(&uri.space, viewer, Some(&uri.author), &uri.path).await {
            Err(SpaceError::NoSpace | SpaceError::NoRepo | SpaceError::NoRecord | SpaceError::Hidden(_)) => {
                Ok(None)
            }
            found => found.map(Some),
        }
    });
    Ok(found.await?.map(|record| (uri.space, record)))
}

/// The author of a write in a space: the caller, in the runs that may write to the caller's repo at a PDS.
pub(super) fn author(state: &mut RunState) -> Result<Did, Fault> {
    if let Some(dry_run) = state.dry_run() {
        return Err(report::refusal(dry_run, "Record in a space"));
    }
    if state.info.delegate.is_some() {
        return Err(fault::forbidden("Record: a run with a delegate_did writes to no space"));
    }
    state.session("Record")?;
    state.info.caller.did.clone().ok_or_else(|| fault::forbidden("Record: there is no caller"))
}

/// Writes to the caller's repo in a space, in one commit.
pub(super) async fn save(
    state: &mut RunState,
    space: &SpaceUri,
    author: &Did,
    writes: Vec<pds::Write>,
    validate: bool,
) -> Result<Vec<Written>, Fault> {
    let writes: Vec<RecordWrite> =
        writes.into_iter().map(|write| write_in_space(state, write)).collect::<Result<_, _>>()?;
    let deletes_one = matches!(writes[..], [RecordWrite { kind: WriteKind::Delete, .. }]);
    let request = WriteRequest { repo: None, writes, swap_commit: None, validate: Some(validate) };
    let written = spaces::call(state, "Record", async |spaces, viewer| {
        match spaces.write(space, viewer, request).await {
            // As in a repo, the record to delete need not exist.
            Err(SpaceError::NoRecord) if deletes_one => Ok(None),
            written => written.map(Some),
        }
    });
    let Some(written) = written.await? else { return Ok(vec![Written { uri: None, cid: None }]) };
    let one = |WrittenRecord { path, cid, .. }: WrittenRecord| Written {
        uri: cid.map(|_| space.record(author.clone(), path).to_string()),
        cid: cid.map(|cid| cid.to_string()),
    };
    Ok(written.records.into_iter().map(one).collect())
}

fn write_in_space(state: &mut RunState, write: pds::Write) -> Result<RecordWrite, Fault> {
    let pds::Write { collection, rkey, action, swap } = write;
    let not_cid = |_| invalid("Record", "the version to replace is not a CID");
    let swap = swap.map(|cid| cid.parse::<Cid>().map_err(not_cid)).transpose()?;
    let mut with = |kind, value: Bytes| Ok::<_, Fault>((kind, Some(fields(state, &value)?)));
    let (kind, record) = match action {
        WriteAction::Create(value) => with(WriteKind::Create, value)?,
        WriteAction::Put(value) => with(WriteKind::Put, value)?,
        WriteAction::Delete => (WriteKind::Delete, None),
    };
    Ok(RecordWrite { kind, collection, rkey, record, swap })
}

fn fields(state: &mut RunState, value: &[u8]) -> Result<Map<String, Value>, Fault> {
    json::check(state, "Record", value, MAX_RECORD_BYTES)?;
    serde_json::from_slice(value).map_err(|error| invalid("Record", error))
}
