//! Functions that use the host's capabilities. Arguments are JSON; a refusal of the host is returned as it is.

use serde_json::{Value, json};

use crate::belvedere::plugin::types::{Fault, FaultCode};
use crate::belvedere::plugin::{attest, http, kv, log, lookup};

/// `{"lines": COUNT, "bytes": OF EACH, "fields": TEXT, "level": NAME, "text": TEXT, "parts": [TEXT], "in_fields": BOOL}`
pub(crate) fn log(arg: &Value) -> Value {
    let bytes = usize::try_from(arg["bytes"].as_u64().unwrap_or(0)).unwrap();
    let text = match arg["parts"].as_array() {
        Some(parts) => parts.iter().filter_map(Value::as_str).collect(),
        None => arg["text"].as_str().map_or_else(|| "x".repeat(bytes), str::to_owned),
    };
    let in_fields = (arg["in_fields"] == true).then(|| json!({"t": text}).to_string());
    let level = match arg["level"].as_str() {
        Some("debug") => log::Level::Debug,
        Some("warn") => log::Level::Warn,
        Some("error") => log::Level::Error,
        _ => log::Level::Info,
    };
    let lines = arg["lines"].as_u64().unwrap_or(1);
    for _ in 0..lines {
        log::write(level, &text, in_fields.as_deref().or(arg["fields"].as_str()));
    }
    lines.into()
}

/// Logs its secret after `filling` bytes.
pub(crate) fn log_secret(filling: u64) -> Value {
    let secret = crate::belvedere::plugin::secrets::get("API_KEY").unwrap_or_default();
    let text = "x".repeat(usize::try_from(filling).unwrap()) + &secret;
    log::write(log::Level::Info, &text, None);
    text.len().into()
}

fn scope(name: &str) -> kv::Scope {
    match name {
        "flow" => kv::Scope::Flow,
        "account" => kv::Scope::Account,
        _ => kv::Scope::Plugin,
    }
}

pub(crate) fn get(scope_name: &str, key: &str) -> Result<Option<Vec<u8>>, Fault> {
    kv::get(scope(scope_name), key)
}

pub(crate) fn set(scope_name: &str, key: &str, value: &[u8]) -> Result<(), Fault> {
    kv::set(scope(scope_name), key, value, None)
}

/// `[SCOPE, KEY]`
pub(crate) fn kv_get(arg: &Value) -> Result<String, Fault> {
    let value = get(arg[0].as_str().unwrap(), arg[1].as_str().unwrap())?;
    let text = value.map(|value| String::from_utf8_lossy(&value).into_owned());
    Ok(Value::from(text).to_string())
}

/// `[SCOPE, KEY, TEXT OR BYTES, SECONDS?]`
pub(crate) fn kv_set(arg: &Value) -> Result<String, Fault> {
    let value = match &arg[2] {
        Value::String(text) => text.clone().into_bytes(),
        length => vec![b'x'; usize::try_from(length.as_u64().unwrap()).unwrap()],
    };
    let ttl = arg[3].as_u64().map(|seconds| u32::try_from(seconds).unwrap());
    kv::set(scope(arg[0].as_str().unwrap()), arg[1].as_str().unwrap(), &value, ttl)?;
    Ok("true".to_owned())
}

pub(crate) fn kv_delete(arg: &Value) -> Result<String, Fault> {
    let removed = kv::delete(scope(arg[0].as_str().unwrap()), arg[1].as_str().unwrap())?;
    Ok(removed.to_string())
}

/// Writes keys from a number on until the host refuses. Returns the first number that was refused.
pub(crate) fn kv_flood(arg: &Value) -> Result<String, Fault> {
    for n in arg.as_u64().unwrap_or(0).. {
        if let Err(fault) = set("plugin", &n.to_string(), b"x") {
            return if fault.code == FaultCode::Quota { Ok(n.to_string()) } else { Err(fault) };
        }
    }
    Ok("null".to_owned())
}

/// `{"method", "url", "headers": [[NAME, VALUE]], "body": BYTES, "timeout", "follow"}`
fn request(arg: &Value) -> http::Request {
    let pair = |pair: &Value| (pair[0].as_str().unwrap().to_owned(), pair[1].as_str().unwrap().to_owned());
    http::Request {
        method: arg["method"].as_str().unwrap_or("GET").to_owned(),
        url: arg["url"].as_str().unwrap().to_owned(),
        headers: arg["headers"].as_array().map(|list| list.iter().map(pair).collect()).unwrap_or_default(),
        body: arg["body"].as_u64().map(|length| vec![b'x'; usize::try_from(length).unwrap()]),
        timeout_ms: arg["timeout"].as_u64().map(|ms| u32::try_from(ms).unwrap()),
        follow_redirects: arg["follow"] == true,
    }
}

/// `[STATUS, BYTES, START OF THE BODY]`
fn shown(response: &http::Response) -> Value {
    let start = String::from_utf8_lossy(&response.body[..response.body.len().min(200)]).into_owned();
    json!([response.status, response.body.len(), start])
}

/// One request, or `times` of them.
pub(crate) fn http(arg: &Value) -> Result<String, Fault> {
    let mut last = Value::Null;
    for _ in 0..arg["times"].as_u64().unwrap_or(1) {
        last = shown(&http::send(&request(arg))?);
    }
    Ok(last.to_string())
}

/// `times` requests at once. Returns what each gave.
pub(crate) fn http_all(arg: &Value) -> Value {
    let requests: Vec<_> = (0..arg["times"].as_u64().unwrap_or(1)).map(|_| request(arg)).collect();
    let answers = http::send_all(&requests);
    answers
        .iter()
        .map(|answer| answer.as_ref().map_or_else(|fault| fault.message.clone().into(), shown))
        .collect()
}

/// `[COLLECTION, PATH, VALUE, TIMES?]`
pub(crate) fn find(arg: &Value) -> Result<String, Fault> {
    let find = || lookup::find(arg[0].as_str().unwrap(), arg[1].as_str().unwrap(), &arg[2].to_string());
    for _ in 1..arg[3].as_u64().unwrap_or(1) {
        find()?;
    }
    let found = find()?;
    Ok(found.map_or(Value::Null, |found| json!([found.uri, found.cid])).to_string())
}

/// `[RECORD, REPO]`
pub(crate) fn sign(arg: &Value) -> Result<String, Fault> {
    attest::sign(&arg[0].to_string(), arg[1].as_str().unwrap())
}

/// `[RECORD, SIGNATURE, REPO]`
pub(crate) fn verify(arg: &Value) -> bool {
    attest::available() && attest::verify(&arg[0].to_string(), &arg[1].to_string(), arg[2].as_str().unwrap())
}
