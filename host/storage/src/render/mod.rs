//! Renders response bodies by splicing stored JSON text, without parsing it into a tree.
//!
//! A row is rendered as the record's fields with `uri` first; a field `uri` of the record itself is left out. DIDs,
//! NSIDs and record keys contain no character that JSON escapes, so a URI is written verbatim.

mod own_uri;

use std::borrow::Cow;
use std::sync::LazyLock;

use bytes::Bytes;
use memchr::memmem::Finder;

use crate::store::records::{Page, RecordRow};
use belvedere_protocol::atproto::blobs;

/// Only a text that contains this can have a blob (`"$type":"blob"`).
static BLOB: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("\"blob\""));

/// The estimated bytes that a response adds to each record: the URI and punctuation.
const ROW_OVERHEAD: usize = 192;

/// The DIDs, without duplicates, whose records may have blobs. The caller resolves their PDSs before rendering.
pub fn blob_authors(rows: &[RecordRow]) -> Vec<&str> {
    let mut dids: Vec<&str> =
        rows.iter().filter(|row| BLOB.find(&row.record).is_some()).map(|row| row.did.as_str()).collect();
    dids.sort_unstable();
    dids.dedup();
    dids
}

/// `{"records":[{"uri":…,…}],"cursor":…}`. `pds` returns a DID's PDS for the `url` of blobs; with `None` they get none.
pub fn list_body<'a>(page: &Page, pds: impl Fn(&str) -> Option<&'a str>) -> Bytes {
    let mut out = Vec::with_capacity(64 + size_of_rows(&page.rows));
    out.extend(br#"{"records":["#);
    for (n, row) in page.rows.iter().enumerate() {
        if n > 0 {
            out.push(b',');
        }
        let text = with_urls(row, || pds(&row.did));
        push_row(&mut out, row, &text);
    }
    out.push(b']');
    if let Some(next) = &page.next {
        // base64url: nothing to escape.
        out.extend(br#","cursor":""#);
        out.extend(next.cursor().as_bytes());
        out.push(b'"');
    }
    out.push(b'}');
    out.into()
}

/// `{"record":{"uri":…,…}}`
pub fn single_body(row: &RecordRow, pds: Option<&str>) -> Bytes {
    let mut out = Vec::with_capacity(16 + size_of_rows(std::slice::from_ref(row)));
    out.extend(br#"{"record":"#);
    push_row(&mut out, row, &with_urls(row, || pds));
    out.push(b'}');
    out.into()
}

fn size_of_rows(rows: &[RecordRow]) -> usize {
    rows.iter().map(|row| row.record.len() + ROW_OVERHEAD).sum()
}

/// The record's text, with a `url` added to each blob if the PDS is known.
fn with_urls<'r, 'p>(row: &'r RecordRow, pds: impl FnOnce() -> Option<&'p str>) -> Cow<'r, [u8]> {
    let unchanged = Cow::Borrowed(row.record.as_ref());
    if BLOB.find(&row.record).is_none() {
        return unchanged;
    }
    let (Some(pds), Ok(text)) = (pds(), std::str::from_utf8(&row.record)) else { return unchanged };
    match blobs::splice_urls(text, pds, &row.did) {
        Some(text) => Cow::Owned(text.into_bytes()),
        None => unchanged,
    }
}

fn push_row(out: &mut Vec<u8>, row: &RecordRow, text: &[u8]) {
    out.extend(br#"{"uri":"at://"#);
    out.extend(row.did.as_bytes());
    out.push(b'/');
    out.extend(row.collection.as_str().as_bytes());
    out.push(b'/');
    out.extend(row.rkey.as_bytes());
    out.push(b'"');

    let own = own_uri::find(text);
    let members = &text[own.members.clone()];
    if members.is_empty() {
        out.push(b'}');
        return;
    }
    match own.uris.as_slice() {
        [] => {
            out.push(b',');
            out.extend(members);
        }
        uris => {
            // Writes the ranges between the `uri` members.
            let mut from = own.members.start;
            let ends =
                uris.iter().map(|uri| (uri.start, uri.end)).chain([(own.members.end, own.members.end)]);
            for (start, end) in ends {
                let part = trim_commas(&text[from..start]);
                if !part.is_empty() {
                    out.push(b',');
                    out.extend(part);
                }
                from = end;
            }
        }
    }
    out.push(b'}');
}

/// Trims commas and whitespace at both ends.
fn trim_commas(mut part: &[u8]) -> &[u8] {
    while let [b',' | b' ' | b'\t' | b'\n' | b'\r', rest @ ..] = part {
        part = rest;
    }
    while let [rest @ .., b',' | b' ' | b'\t' | b'\n' | b'\r'] = part {
        part = rest;
    }
    part
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::query::{Keyset, Position};
    use belvedere_base::clock::Timestamp;
    use belvedere_protocol::atproto::Nsid;

    fn row(record: &str) -> RecordRow {
        RecordRow {
            id: 1,
            did: "did:plc:abc".into(),
            collection: Nsid::try_from("com.example.note").unwrap(),
            rkey: "self".into(),
            indexed_at: Timestamp(0),
            cid: None,
            record: Bytes::copy_from_slice(record.as_bytes()),
        }
    }

    const URI: &str = "at://did:plc:abc/com.example.note/self";

    fn row_json(row: &RecordRow) -> Bytes {
        let mut out = Vec::new();
        push_row(&mut out, row, &row.record);
        out.into()
    }

    #[test]
    fn the_uri_comes_first_and_the_rest_is_unchanged() {
        for (record, expected) in [
            ("{}", r#"{"uri":"URI"}"#),
            (" { } ", r#"{"uri":"URI"}"#),
            (r#"{"a":1}"#, r#"{"uri":"URI","a":1}"#),
            (r#"{ "a" : [1, "}"] , "b":{"uri":"x"} }"#, r#"{"uri":"URI","a" : [1, "}"] , "b":{"uri":"x"}}"#),
            (r#"{"uri":"x"}"#, r#"{"uri":"URI"}"#),
            (r#"{"uri":"x","a":1}"#, r#"{"uri":"URI","a":1}"#),
            (r#"{"a":1,"uri":{"b":[2,"]"]}}"#, r#"{"uri":"URI","a":1}"#),
            (r#"{"a":1, "uri" : null ,"b":2}"#, r#"{"uri":"URI","a":1,"b":2}"#),
            (r#"{"a":1,"\u0075ri":"x","b":"\"uri\":1"}"#, r#"{"uri":"URI","a":1,"b":"\"uri\":1"}"#),
            (r#"{"uri":1,"a":2,"uri":3}"#, r#"{"uri":"URI","a":2}"#),
            (r#"{"a":"uri","uri2":1}"#, r#"{"uri":"URI","a":"uri","uri2":1}"#),
        ] {
            let row = row(record);
            assert_eq!(row_json(&row), expected.replace("URI", URI), "{record}");
        }
    }

    #[test]
    fn bodies() {
        let next = Position::Time(Keyset { indexed_at: Timestamp(1), id: 2 });
        let cursor = next.cursor();
        let page = Page { rows: vec![row(r#"{"a":1}"#), row("{}")], next: Some(next), previous: None };
        assert_eq!(
            list_body(&page, |_| None),
            format!(r#"{{"records":[{{"uri":"{URI}","a":1}},{{"uri":"{URI}"}}],"cursor":"{cursor}"}}"#)
        );
        let empty = Page::<RecordRow>::empty();
        assert_eq!(list_body(&empty, |_| None), r#"{"records":[]}"#);
        assert_eq!(single_body(&page.rows[0], None), format!(r#"{{"record":{{"uri":"{URI}","a":1}}}}"#));
    }

    #[test]
    fn only_records_with_blobs_have_blob_authors() {
        let with = row(r#"{"image":{"$type":"blob"}}"#);
        assert_eq!(blob_authors(&[with.clone(), row("{}"), with]), ["did:plc:abc"]);
        assert_eq!(blob_authors(&[row(r#"{"text":"blob?"}"#)]), [""; 0]);
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            "(uri|\"uri\":|.{0,8})".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::vec(("(uri|[a-z]{1,3}|.{0,3})", inner), 0..4)
                    .prop_map(|pairs| Value::Object(pairs.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn equals_rendering_from_a_tree(
            fields in prop::collection::vec(("(uri|[a-z]{1,3}|.{0,3})", any_value()), 0..5),
            pretty in any::<bool>(),
        ) {
            let mut object: serde_json::Map<String, Value> = fields.into_iter().collect();
            let text = if pretty { serde_json::to_string_pretty(&object) } else { serde_json::to_string(&object) };
            let rendered: Value = serde_json::from_slice(&row_json(&row(&text.unwrap()))).unwrap();
            object.insert("uri".into(), json!(URI));
            prop_assert_eq!(rendered, Value::Object(object));
        }

        #[test]
        fn never_panics(text in "[{}\\[\\]\",:\\\\uri a01]{0,40}") {
            row_json(&row(&text));
        }
    }
}
