//! Adds entries to the report of a dry run. Host functions have checked their arguments as always, and
//! return the result of a write that succeeds.

use bytes::Bytes;
use http::Method;
use serde_json::value::RawValue;

use super::fault;
use super::state::RunState;
use crate::scripts::bindings::belvedere::script::http::{Outcome, Response};
use crate::scripts::bindings::belvedere::script::linked_repos::Put;
use crate::scripts::bindings::belvedere::script::repo::Written;
use crate::scripts::bindings::belvedere::script::types::Fault;
use crate::scripts::dry_run::{DryRun, DryWrite};
use belvedere_instance::pds::{Write, WriteAction};
use belvedere_protocol::atproto::record;
use belvedere_protocol::atproto::{Did, RecordKey, RecordUri};

/// Status of the answer to a request that is not sent: it has no body.
const NOT_SENT: u16 = 204;

/// JSON that was checked before.
pub(super) fn json(bytes: &[u8]) -> &RawValue {
    serde_json::from_slice(bytes).unwrap_or(RawValue::NULL)
}

/// The refusal of a function whose answer can't be known.
pub(super) fn refusal(dry_run: &DryRun, function: &str) -> Fault {
    fault::forbidden(dry_run.refuse(function))
}

/// Adds the writes of a commit.
pub(super) fn commit(state: &RunState, dry_run: &DryRun, repo: &Did, writes: &[Write]) -> Vec<Written> {
    let one = |write: &Write| {
        let uri = uri_of(state, repo, write);
        let (entry, cid) = match &write.action {
            WriteAction::Create(record) => {
                (DryWrite::RecordCreate { uri: uri.clone(), record: json(record) }, cid(record))
            }
            WriteAction::Put(record) => {
                (DryWrite::RecordUpdate { uri: uri.clone(), record: json(record) }, cid(record))
            }
            WriteAction::Delete => (DryWrite::RecordDelete { uri: uri.clone() }, None),
        };
        dry_run.write(&entry);
        let deleted = matches!(write.action, WriteAction::Delete);
        Written { uri: (!deleted).then_some(uri), cid }
    };
    writes.iter().map(one).collect()
}

/// Adds a write to a linked repo.
pub(super) fn linked_write(state: &RunState, dry_run: &DryRun, repo: &Did, write: &Write) -> Put {
    let uri = uri_of(state, repo, write);
    let (entry, cid) = match &write.action {
        WriteAction::Create(record) => {
            (DryWrite::LinkedRepoCreate { uri: uri.clone(), record: json(record) }, cid(record))
        }
        WriteAction::Put(record) => {
            (DryWrite::LinkedRepoPut { uri: uri.clone(), record: json(record) }, cid(record))
        }
        WriteAction::Delete => (DryWrite::LinkedRepoDelete { uri: uri.clone() }, None),
    };
    dry_run.write(&entry);
    Put { uri, cid: cid.unwrap_or_default() }
}

/// The URI of the record of a write, with a key as a PDS would generate one.
fn uri_of(state: &RunState, repo: &Did, write: &Write) -> String {
    let new_key = || {
        let tid = state.tids.next(state.clock.now());
        RecordKey::try_from(tid.as_str()).expect("a TID is a record key")
    };
    let rkey = write.rkey.clone().unwrap_or_else(new_key);
    RecordUri { did: repo.clone(), collection: write.collection.clone(), rkey }.to_string()
}

/// The CID that a PDS would give to a record.
fn cid(record: &Bytes) -> Option<String> {
    Some(record::inspect(record).ok()?.cid.ok()?.to_string())
}

/// Adds a request, and returns the outcome of one that is not sent. `None` for one that only reads and may be sent.
pub(super) fn request(dry_run: &DryRun, method: &Method, url: &str, body_bytes: usize) -> Option<Outcome> {
    let only_reads = matches!(*method, Method::GET | Method::HEAD);
    if only_reads {
        let refused = !dry_run.options().network;
        let name = format!("http.{}", method.as_str().to_ascii_lowercase());
        return refused.then(|| Outcome { response: None, fault: Some(refusal(dry_run, &name)) });
    }
    dry_run.write(&DryWrite::HttpRequest { method: method.as_str(), url, body_bytes });
    dry_run.answer_unsent();
    let response = Response { status: NOT_SENT, headers: Vec::new(), body: Vec::new() };
    Some(Outcome { response: Some(response), fault: None })
}
