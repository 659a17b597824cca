//! The operations of a PLC directory: accepts those that the real one would, and makes DID documents of them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use belvedere_protocol::atproto::record::{inspect, to_cbor};
use belvedere_protocol::crypto::{HighS, PublicKey, sha256};
use bytes::Bytes;
use data_encoding::BASE32_NOPAD;
use http::{Response, StatusCode};
use http_body_util::Full;
use serde_json::{Value, json};

/// The operations of each DID, in order. Cheap to clone.
#[derive(Clone, Default)]
pub struct OperationLog(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    operations: HashMap<String, Vec<Value>>,
    /// The number of next requests that are answered with 429, and the seconds to wait that these answers name.
    limited: (u32, u32),
    refused: u32,
    /// Whether the next accepted operation is answered as if the directory had failed.
    lose_answer: bool,
}

impl OperationLog {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no test panics here")
    }

    /// All operations of a DID.
    pub fn of(&self, did: &str) -> Vec<Value> {
        self.state().operations.get(did).cloned().unwrap_or_default()
    }

    /// The number of requests that were answered with 429.
    pub fn refused(&self) -> u32 {
        self.state().refused
    }

    /// Adds an operation without a check, as if another client had sent it.
    pub fn append(&self, did: &str, operation: Value) {
        self.state().operations.entry(did.to_owned()).or_default().push(operation);
    }

    /// Answers the next `count` requests with 429 and `Retry-After`.
    pub fn limit(&self, count: u32, seconds: u32) {
        self.state().limited = (count, seconds);
    }

    /// Accepts the next operation, and answers 500.
    pub fn lose_next_answer(&self) {
        self.state().lose_answer = true;
    }

    pub(super) fn limited(&self) -> Option<Response<Full<Bytes>>> {
        let mut state = self.state();
        let (count, seconds) = state.limited;
        state.limited.0 = count.checked_sub(1)?;
        state.refused += 1;
        let mut response = Response::new(Full::new(Bytes::new()));
        *response.status_mut() = StatusCode::TOO_MANY_REQUESTS;
        response.headers_mut().insert("retry-after", seconds.into());
        Some(response)
    }

    pub(super) fn last(&self, did: &str) -> Option<Value> {
        self.state().operations.get(did)?.last().cloned()
    }

    /// Checks and stores an operation. Returns the DID document.
    pub(super) fn submit(&self, did: &str, body: &[u8]) -> Result<Value, String> {
        let operation: Value = serde_json::from_slice(body).map_err(|error| error.to_string())?;
        let mut state = self.state();
        let last = state.operations.get(did).and_then(|operations| operations.last().cloned());
        check(did, &operation, last.as_ref())?;
        state.operations.entry(did.to_owned()).or_default().push(operation.clone());
        if std::mem::take(&mut state.lose_answer) {
            return Err("the answer is lost".to_owned());
        }
        Ok(document(did, &operation))
    }
}

fn check(did: &str, operation: &Value, last: Option<&Value>) -> Result<(), String> {
    let bytes = |value: &Value| to_cbor(value.to_string().as_bytes()).expect("JSON").expect("DAG-CBOR");
    let prev = match last {
        Some(last) => {
            let cid = inspect(last.to_string().as_bytes()).expect("JSON").cid.expect("a CID");
            Value::String(cid.to_string())
        }
        None => Value::Null,
    };
    if operation["prev"] != prev {
        return Err("prev is not the last operation".to_owned());
    }
    if last.is_none() {
        let hash = BASE32_NOPAD.encode(&sha256(&bytes(operation))).to_ascii_lowercase();
        if did != format!("did:plc:{}", &hash[..24]) {
            return Err("the DID is not the hash of its first operation".to_owned());
        }
    }
    let mut unsigned = operation.clone();
    let signature = unsigned.as_object_mut().and_then(|fields| fields.remove("sig"));
    let signature = signature.as_ref().and_then(Value::as_str).unwrap_or_default();
    let signature = URL_SAFE_NO_PAD.decode(signature).map_err(|error| error.to_string())?;
    let keys = last.unwrap_or(operation)["rotationKeys"].as_array().cloned().unwrap_or_default();
    let signed = keys.iter().filter_map(Value::as_str).any(|key| {
        let key = PublicKey::from_did_key(key).expect("a rotation key");
        key.verify(&bytes(&unsigned), &signature, HighS::Refuse).is_ok()
    });
    if signed { Ok(()) } else { Err("Invalid signature".to_owned()) }
}

/// The DID document that an operation describes.
fn document(did: &str, operation: &Value) -> Value {
    let list = |name: &str, item: fn(&str, &str, &Value) -> Value| {
        let entries = operation[name].as_object().into_iter().flatten();
        entries.map(|(name, value)| item(did, name, value)).collect::<Vec<_>>()
    };
    json!({
        "id": did,
        "alsoKnownAs": operation["alsoKnownAs"],
        "verificationMethod": list("verificationMethods", |did, name, key| {
            let key = key.as_str().unwrap_or_default().trim_start_matches("did:key:");
            json!({ "id": format!("{did}#{name}"), "type": "Multikey", "controller": did, "publicKeyMultibase": key })
        }),
        "service": list("services", |_, name, service| {
            json!({ "id": format!("#{name}"), "type": service["type"], "serviceEndpoint": service["endpoint"] })
        }),
    })
}
