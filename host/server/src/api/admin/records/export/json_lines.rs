//! Writes records as JSON lines.

use serde::Serialize;
use serde_json::value::RawValue;

use crate::api::admin::records::listing::IndexedRecord;
use belvedere_base::clock::Timestamp;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Line<'a> {
    uri: &'a str,
    cid: Option<&'a str>,
    did: &'a str,
    rkey: &'a str,
    indexed_at: Timestamp,
    record: &'a RawValue,
}

/// Appends the line of a record. A record that was stored with line breaks is written without them.
pub(super) fn write(bytes: &mut Vec<u8>, of: &IndexedRecord) -> Result<(), serde_json::Error> {
    let has_breaks = of.record.get().contains(['\n', '\r']);
    let on_one_line = if has_breaks { Some(one_line(&of.record)?) } else { None };
    let line = Line {
        uri: &of.uri,
        cid: of.cid.as_deref(),
        did: &of.did,
        rkey: &of.rkey,
        indexed_at: of.indexed_at,
        record: on_one_line.as_deref().unwrap_or(&of.record),
    };
    serde_json::to_writer(&mut *bytes, &line)?;
    bytes.push(b'\n');
    Ok(())
}

/// Line breaks of JSON text are outside of strings, where blanks mean the same.
fn one_line(record: &RawValue) -> Result<Box<RawValue>, serde_json::Error> {
    RawValue::from_string(record.get().replace(['\n', '\r'], " "))
}
