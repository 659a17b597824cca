//! Packs rows for the guest: `types.rows` in `wit/guest.wit`.
//!
//! The guest keeps a record as text until the script looks at its fields, and copies the text of untouched records into the
//! script's result. It then adds the field `uri`, which is only possible if the record has none.

use memchr::memmem;

use super::state::RunState;
use crate::scripts::bindings::belvedere::script::types::Fault;
use belvedere_base::clock::Timestamp;
use belvedere_protocol::atproto::Cid;
use belvedere_protocol::spaces::SpaceUri;
use belvedere_storage::store::records::RecordRow;
use belvedere_storage::store::spaces::records::SpaceRecord;

/// Bytes of a CID.
const CID_BYTES: usize = 36;

/// Set in a record's length if the guest may keep the record as text.
const STAYS_TEXT: u32 = 1 << 31;

/// A record with its address and version.
struct Row<'a> {
    /// The parts of its URI.
    uri: [&'a str; 6],
    indexed_at: Timestamp,
    cid: Option<&'a Cid>,
    record: &'a [u8],
}

impl Row<'_> {
    fn uri_len(&self) -> usize {
        self.uri.iter().map(|part| part.len()).sum()
    }

    fn meta_len(&self) -> usize {
        size_of::<i64>() + self.cid.map_or(0, |_| CID_BYTES)
    }

    fn len(&self) -> usize {
        3 * size_of::<u32>() + self.uri_len() + self.meta_len() + self.record.len()
    }
}

/// Packs records of the index. Counts the rows.
pub(super) fn pack(state: &mut RunState, rows: &[RecordRow]) -> Result<Vec<u8>, Fault> {
    pack_all(
        state,
        rows.iter().map(|RecordRow { did, collection, rkey, indexed_at, cid, record, .. }| Row {
            uri: ["at://", did, "/", collection.as_str(), "/", rkey],
            indexed_at: *indexed_at,
            cid: cid.as_ref(),
            record,
        }),
    )
}

/// Packs records of a space. Counts the rows.
pub(super) fn pack_of_space(
    state: &mut RunState,
    space: &SpaceUri,
    records: &[SpaceRecord],
) -> Result<Vec<u8>, Fault> {
    let place = format!("{space}/");
    pack_all(
        state,
        records.iter().map(|SpaceRecord { author, path, cid, text, indexed_at, .. }| Row {
            uri: [&place, author.as_str(), "/", path.collection.as_str(), "/", path.rkey.as_str()],
            indexed_at: *indexed_at,
            cid: Some(cid),
            record: text.as_deref().unwrap_or("null").as_bytes(),
        }),
    )
}

/// For each row its URI, its time and CID, and its record, each after its length.
fn pack_all<'a>(
    state: &mut RunState,
    rows: impl ExactSizeIterator<Item = Row<'a>> + Clone,
) -> Result<Vec<u8>, Fault> {
    let bytes = rows.clone().map(|row| row.len()).sum();
    state.count_rows(rows.len(), bytes)?;
    let mut out = Vec::with_capacity(bytes);
    for row in rows {
        let record = row.record;
        let flag = if stays_text(record) { STAYS_TEXT } else { 0 };
        out.extend_from_slice(&(row.uri_len() as u32).to_le_bytes());
        for part in row.uri {
            out.extend_from_slice(part.as_bytes());
        }
        out.extend_from_slice(&(row.meta_len() as u32).to_le_bytes());
        out.extend_from_slice(&row.indexed_at.0.to_le_bytes());
        if let Some(cid) = row.cid {
            out.extend_from_slice(&cid.to_bytes());
        }
        out.extend_from_slice(&(record.len() as u32 | flag).to_le_bytes());
        out.extend_from_slice(record);
    }
    Ok(out)
}

/// Whether a field `uri` can be added at the end of the object: it has another field, none of that name, and no space
/// around it.
fn stays_text(record: &[u8]) -> bool {
    if !record.starts_with(b"{\"") || !record.ends_with(b"}") {
        return false;
    }
    // Few records contain either, so most need no second pass.
    let suspicious = memmem::find(record, b"\"uri\"").is_some() || memchr::memchr(b'\\', record).is_some();
    !suspicious || !has_uri(record)
}

/// Whether the outermost object has a field `uri`, or one whose name has an escape.
fn has_uri(record: &[u8]) -> bool {
    let (mut at, mut depth) = (0, 0_u32);
    while let Some(&byte) = record.get(at) {
        at += 1;
        match byte {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            b'"' => {
                let text = string(&record[at..]);
                at += text.len() + 1;
                if depth == 1
                    && (text == b"uri" || text.contains(&b'\\'))
                    && is_name(&record[at.min(record.len())..])
                {
                    return true;
                }
            }
            _ => {}
        }
    }
    false
}

/// The text of a string, up to the quote that ends it.
fn string(rest: &[u8]) -> &[u8] {
    let mut at = 0;
    while let Some(found) = memchr::memchr2(b'"', b'\\', &rest[at..]) {
        if rest[at + found] == b'"' {
            return &rest[..at + found];
        }
        at = (at + found + 2).min(rest.len());
    }
    rest
}

/// Whether the string before `rest` is the name of a field.
fn is_name(rest: &[u8]) -> bool {
    rest.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b':')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn records_with_a_field_uri_are_found() {
        for (record, expected) in [
            (r#"{"a":1}"#, true),
            (r#"{"subject":{"uri":"at://x"}}"#, true),
            (r#"{"a":["uri"],"b":"uri","c":"uri\"}"}"#, true),
            (r#"{"a":"\\","b":"\u0075ri"}"#, true),
            (r#"{"uri":1}"#, false),
            (r#"{"a":{"b":[{}]}, "uri" : 1}"#, false),
            (r#"{"a":"\\","uri":1}"#, false),
            (r#"{"\u0075ri":1}"#, false),
            (r#"{"a\"":1}"#, false),
            ("{}", false),
            (r#"{ "a":1}"#, false),
            (r#"{"a":1} "#, false),
            (r#"["a"]"#, false),
            (r#"{"a"#, false),
            (r#"{"\"#, false),
        ] {
            assert_eq!(stays_text(record.as_bytes()), expected, "{record}");
        }
    }

    fn value() -> impl Strategy<Value = Value> {
        let text = prop_oneof!["[a-c\"\\\\{}:,\n]{0,4}", Just("uri".to_owned())];
        let leaf = prop_oneof![any::<i8>().prop_map(Value::from), text.clone().prop_map(Value::from)];
        leaf.prop_recursive(3, 12, 4, move |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                proptest::collection::hash_map(text.clone(), inner, 0..4)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn a_field_can_be_added_to_what_stays_text(value in value()) {
            let record = value.to_string();
            if stays_text(record.as_bytes()) {
                let text = format!("{},\"uri\":\"x\"}}", &record[..record.len() - 1]);
                let mut expected = value;
                expected["uri"] = json!("x");
                prop_assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), expected);
                prop_assert_eq!(text.matches("\"uri\":\"x\"").count(), 1 + record.matches("\"uri\":\"x\"").count());
            } else if let Some(fields) = value.as_object() {
                prop_assert!(fields.is_empty() || fields.keys().any(|name| name == "uri" || name.contains(['"', '\\', '\n'])));
            }
        }

        #[test]
        fn never_panics(bytes in proptest::collection::vec(proptest::sample::select(b"{}[]\":,\\uri x".to_vec()), 0..40)) {
            stays_text(&bytes);
        }
    }
}
