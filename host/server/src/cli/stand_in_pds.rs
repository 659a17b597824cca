//! A PDS without a store, for tests of scripts and `belvedere dev`: accepts each write, and gives records the keys and CIDs that a PDS
//! would give.

use http::StatusCode;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use belvedere_base::clock::Timestamp;
use belvedere_protocol::atproto::{Tid, record};

/// The origin of the PDS. The name exists nowhere.
pub(super) const ORIGIN: &str = "https://pds.invalid";

/// The clock id of the TIDs of this PDS.
const CLOCK_ID: u16 = 7;

/// The end of a call.
pub(super) struct Answered {
    pub(super) status: StatusCode,
    pub(super) body: Value,
    /// The accepted writes: `kind` (`create`, `update`, `delete`), `uri`, and with a record its `cid` and `record`.
    pub(super) writes: Vec<Value>,
}

#[derive(Deserialize)]
struct One<'a> {
    repo: String,
    collection: String,
    rkey: Option<String>,
    #[serde(borrow)]
    record: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Several<'a> {
    repo: String,
    #[serde(borrow)]
    writes: Vec<Element<'a>>,
}

#[derive(Deserialize)]
struct Element<'a> {
    #[serde(rename = "$type")]
    kind: String,
    collection: String,
    rkey: Option<String>,
    #[serde(borrow)]
    value: Option<&'a RawValue>,
}

/// A write of a call.
struct Write<'a> {
    kind: &'static str,
    repo: &'a str,
    collection: &'a str,
    rkey: Option<&'a str>,
    record: Option<&'a RawValue>,
}

/// The answer to a call; `None` for a method that is no write. `number`: of the call, from 1.
pub(super) fn answer(nsid: &str, body: &[u8], now: Timestamp, number: u64) -> Option<Answered> {
    let kind = match nsid {
        "com.atproto.repo.createRecord" => "create",
        "com.atproto.repo.putRecord" => "update",
        "com.atproto.repo.deleteRecord" => "delete",
        "com.atproto.repo.applyWrites" => return Some(several(body, now, number).unwrap_or_else(refusal)),
        _ => return None,
    };
    Some(one(kind, body, now, number).unwrap_or_else(refusal))
}

fn refusal(message: String) -> Answered {
    let body = json!({ "error": "InvalidRequest", "message": message });
    Answered { status: StatusCode::BAD_REQUEST, body, writes: Vec::new() }
}

fn one(kind: &'static str, body: &[u8], now: Timestamp, number: u64) -> Result<Answered, String> {
    let One { repo, collection, rkey, record } = parse(body)?;
    let tid = tid(now, number, 0)?;
    let write = Write { kind, repo: &repo, collection: &collection, rkey: rkey.as_deref(), record };
    let (mut answer, write) = write.accept(&tid)?;
    answer["commit"] = json!({ "cid": answer["cid"], "rev": tid });
    Ok(Answered { status: StatusCode::OK, body: answer, writes: vec![write] })
}

fn several(body: &[u8], now: Timestamp, number: u64) -> Result<Answered, String> {
    let Several { repo, writes } = parse(body)?;
    let (mut results, mut accepted) = (Vec::new(), Vec::new());
    for (at, Element { kind, collection, rkey, value }) in writes.iter().enumerate() {
        let kind = match kind.rsplit('#').next() {
            Some("create") => "create",
            Some("update") => "update",
            _ => "delete",
        };
        let write = Write { kind, repo: &repo, collection, rkey: rkey.as_deref(), record: *value };
        let (mut result, write) = write.accept(&tid(now, number, at)?)?;
        result["$type"] = format!("com.atproto.repo.applyWrites#{kind}Result").into();
        results.push(result);
        accepted.push(write);
    }
    let body = json!({ "commit": { "rev": tid(now, number, 0)? }, "results": results });
    Ok(Answered { status: StatusCode::OK, body, writes: accepted })
}

impl Write<'_> {
    /// The answer of the PDS, and the write as in [`Answered::writes`]. `key`: of a new record without one.
    fn accept(&self, key: &str) -> Result<(Value, Value), String> {
        let Self { kind, repo, collection, rkey, record } = *self;
        let uri = format!("at://{repo}/{collection}/{}", rkey.unwrap_or(key));
        let Some(text) = record else { return Ok((json!({}), json!({ "kind": kind, "uri": uri }))) };
        let inspected = record::inspect(text.get().as_bytes()).map_err(|error| error.to_string())?;
        let cid = inspected.cid.map_err(|error| error.to_string())?.to_string();
        let answer = json!({ "uri": uri, "cid": cid, "validationStatus": "valid" });
        Ok((answer, json!({ "kind": kind, "uri": uri, "cid": cid, "record": text })))
    }
}

/// Increases with each call, and within a call.
fn tid(now: Timestamp, number: u64, at: usize) -> Result<String, String> {
    let micros = u64::try_from(now.0).unwrap_or_default().saturating_add(number * 1_000 + at as u64);
    Tid::new(micros, CLOCK_ID).map(|tid| tid.to_string()).map_err(|error| error.to_string())
}

fn parse<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, String> {
    serde_json::from_slice(body).map_err(|error| error.to_string())
}
