//! Builds events as Jetstream sends them. Their CIDs come from an encoder that shares no code with the one under test.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use shrike::cbor::{Cid, Codec};
use tokio_tungstenite::tungstenite::Utf8Bytes;

/// One event, encoded.
#[derive(Clone, Debug)]
pub struct Frame {
    pub time_us: i64,
    pub collection: Option<Arc<str>>,
    pub text: Utf8Bytes,
}

/// The repo, collection, rkey and rev of a commit.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    pub did: &'a str,
    pub collection: &'a str,
    pub rkey: &'a str,
    pub rev: &'a str,
}

impl Frame {
    fn commit(time_us: i64, at: Place<'_>, operation: &str, record: Option<(&Value, String)>) -> Self {
        let mut commit =
            json!({ "rev": at.rev, "operation": operation, "collection": at.collection, "rkey": at.rkey });
        if let Some((record, cid)) = record {
            commit["record"] = record.clone();
            commit["cid"] = cid.into();
        }
        let event = json!({ "did": at.did, "time_us": time_us, "kind": "commit", "commit": commit });
        Self { time_us, collection: Some(at.collection.into()), text: event.to_string().into() }
    }

    /// A create with the correct CID.
    pub fn create(time_us: i64, at: Place<'_>, record: &Value) -> Self {
        Self::commit(time_us, at, "create", Some((record, cid_of(record))))
    }

    /// An update with the correct CID.
    pub fn update(time_us: i64, at: Place<'_>, record: &Value) -> Self {
        Self::commit(time_us, at, "update", Some((record, cid_of(record))))
    }

    /// A create with the CID of another record.
    pub fn forged(time_us: i64, at: Place<'_>, record: &Value) -> Self {
        Self::commit(time_us, at, "create", Some((record, cid_of(&json!({ "another": "record" })))))
    }

    pub fn delete(time_us: i64, at: Place<'_>) -> Self {
        Self::commit(time_us, at, "delete", None)
    }

    /// `status` is the value in the event: `deactivated`, `takendown` or `deleted`; `None` for an active account.
    pub fn account(time_us: i64, did: &str, status: Option<&str>) -> Self {
        Self::account_at(time_us, did, status, "2026-01-01T00:00:00Z")
    }

    /// Like [`Self::account`], with the time that the account's server gave.
    pub fn account_at(time_us: i64, did: &str, status: Option<&str>, time: &str) -> Self {
        let mut account = json!({ "did": did, "seq": 1, "time": time, "active": status.is_none() });
        if let Some(status) = status {
            account["status"] = status.into();
        }
        let event = json!({ "did": did, "time_us": time_us, "kind": "account", "account": account });
        Self { time_us, collection: None, text: event.to_string().into() }
    }

    pub fn identity(time_us: i64, did: &str, handle: &str) -> Self {
        let identity = json!({ "did": did, "seq": 1, "handle": handle, "time": "2026-01-01T00:00:00Z" });
        let event = json!({ "did": did, "time_us": time_us, "kind": "identity", "identity": identity });
        Self { time_us, collection: None, text: event.to_string().into() }
    }

    /// A repo whose state has changed without commits.
    pub fn sync(time_us: i64, did: &str, rev: &str) -> Self {
        let sync = json!({ "did": did, "seq": 1, "rev": rev, "time": "2026-01-01T00:00:00Z" });
        let event = json!({ "did": did, "time_us": time_us, "kind": "sync", "sync": sync });
        Self { time_us, collection: None, text: event.to_string().into() }
    }
}

/// `n` creates of about 400 bytes in one collection, spread over `repos` repos, one microsecond apart starting at
/// `first_time_us`, with correct CIDs, ascending revs and one reference each. The same arguments give the same
/// frames.
pub fn synthetic(
    n: usize,
    repos: usize,
    collection: &str,
    first_time_us: i64,
) -> impl Iterator<Item = Frame> + use<> {
    let name: Arc<str> = Arc::from(collection);
    (0..n).map(move |i| {
        let time_us = first_time_us + i as i64;
        let did = synthetic_did(i % repos);
        let rev = tid(time_us as u64, 0);
        let record = synthetic_record(&name, i);
        let place = Place { did: &did, collection: &name, rkey: &rev, rev: &rev };
        Frame::create(time_us, place, &record)
    })
}

pub fn synthetic_did(repo: usize) -> String {
    let mut name = [b'a'; 24];
    let mut rest = repo;
    for byte in name.iter_mut().rev() {
        *byte = b"abcdefghijklmnopqrstuvwxyz234567"[rest % 32];
        rest /= 32;
    }
    format!("did:plc:{}", String::from_utf8_lossy(&name))
}

/// The record of the `i`th synthetic event.
pub fn synthetic_record(collection: &str, i: usize) -> Value {
    json!({
        "$type": collection,
        "createdAt": format!("2026-01-01T{:02}:{:02}:{:02}.000Z", i / 3600 % 24, i / 60 % 60, i % 60),
        "langs": ["en"],
        "likes": i % 1000,
        "subject": { "uri": format!("at://{}/app.example.post/{}", synthetic_did(i % 977), tid(i as u64 % 5000 + 1, 3)) },
        "text": format!("synthetic note number {i}, long enough to look like something that a person could have \
                         written on an ordinary day"),
    })
}

/// A timestamp identifier: 53 bits of microseconds, 10 bits of clock id, in base32-sortable.
pub fn tid(micros: u64, clock: u64) -> String {
    let value = micros << 10 | clock;
    (0..13)
        .rev()
        .map(|i| char::from(b"234567abcdefghijklmnopqrstuvwxyz"[(value >> (5 * i) & 31) as usize]))
        .collect()
}

/// The CID of a record, from a DAG-CBOR encoder that shares no code with the one under test.
pub fn cid_of(record: &Value) -> String {
    Cid::compute(Codec::Drisl, &cbor_of(record)).to_string()
}

/// The DAG-CBOR of a record, from the same encoder.
pub fn cbor_of(record: &Value) -> Vec<u8> {
    let mut cbor = Vec::with_capacity(512);
    encode(record, &mut cbor);
    cbor
}

/// Encodes a value as DAG-CBOR. Floats and `$bytes` are not supported: the tests' records have none.
fn encode(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Null => out.push(0xf6),
        Value::Bool(b) => out.push(if *b { 0xf5 } else { 0xf4 }),
        Value::Number(n) => match n.as_i64() {
            Some(n) if n < 0 => head(1, !n as u64, out),
            Some(n) => head(0, n as u64, out),
            None => panic!("the stand-in does not support floats"),
        },
        Value::String(s) => text(s, out),
        Value::Array(items) => {
            head(4, items.len() as u64, out);
            for item in items {
                encode(item, out);
            }
        }
        Value::Object(fields) => match fields.get("$link").and_then(Value::as_str) {
            Some(cid) if fields.len() == 1 => link(cid, out),
            _ => object(fields, out),
        },
    }
}

/// Encodes a CID as in DAG-CBOR: tag 42 around its bytes, which are prefixed with a zero.
fn link(cid: &str, out: &mut Vec<u8>) {
    let base32 = cid.strip_prefix('b').expect("a CID in base32").to_ascii_uppercase();
    let bytes = data_encoding::BASE32_NOPAD.decode(base32.as_bytes()).expect("a CID in base32");
    head(6, 42, out);
    head(2, bytes.len() as u64 + 1, out);
    out.push(0);
    out.extend(bytes);
}

/// Encodes an object with its keys in DAG-CBOR's order: shorter first, then bytewise.
fn object(fields: &Map<String, Value>, out: &mut Vec<u8>) {
    head(5, fields.len() as u64, out);
    let mut sorted: Vec<_> = fields.iter().collect();
    sorted.sort_by(|a, b| (a.0.len(), a.0).cmp(&(b.0.len(), b.0)));
    for (key, value) in sorted {
        text(key, out);
        encode(value, out);
    }
}

fn text(s: &str, out: &mut Vec<u8>) {
    head(3, s.len() as u64, out);
    out.extend_from_slice(s.as_bytes());
}

fn head(major: u8, n: u64, out: &mut Vec<u8>) {
    let major = major << 5;
    match n {
        0..24 => out.push(major | n as u8),
        24..0x100 => out.extend([major | 0x18, n as u8]),
        0x100..0x1_0000 => {
            out.push(major | 0x19);
            out.extend((n as u16).to_be_bytes());
        }
        0x1_0000..0x1_0000_0000 => {
            out.push(major | 0x1a);
            out.extend((n as u32).to_be_bytes());
        }
        _ => {
            out.push(major | 0x1b);
            out.extend(n.to_be_bytes());
        }
    }
}
