//! Adds to the blobs of a record a `url` from which their bytes can be downloaded.

use std::borrow::Cow;
use std::ops::Range;

use memchr::memmem;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::json::{plain_len, skip_space, unescape};
use super::record::MAX_DEPTH;

/// Escapes all characters of a query value but RFC 3986's unreserved ones and the colon, which every DID contains.
const QUERY: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b':');

/// The download URL of a blob at a PDS, given by its origin.
pub fn url(pds: &str, did: &str, cid: &str) -> String {
    let [did, cid] = [did, cid].map(|text| utf8_percent_encode(text, QUERY));
    format!("{pds}/xrpc/com.atproto.sync.getBlob?did={did}&cid={cid}")
}

/// Adds `url` to every `{"$type":"blob"}` of `json`, the JSON text of a record of `did` whose repo `pds` (an origin)
/// hosts; the rest of the text stays as it is. A `url` that the record's author wrote is replaced, because clients
/// would take it for ours. `None` when there is nothing to add, or when [`super::record::inspect`] rejects the text.
pub fn splice_urls(json: &str, pds: &str, did: &str) -> Option<String> {
    // Nearly every record returns here. A record that writes "blob" with JSON escapes gets no URLs.
    memmem::find(json.as_bytes(), b"\"blob\"")?;
    let mut scanner = Scanner { text: json.as_bytes(), at: 0, blobs: Vec::new() };
    scanner.value(0)?;
    if scanner.blobs.is_empty() {
        return None;
    }
    scanner.blobs.sort_unstable_by_key(|blob| blob.range.start);
    let mut out = String::with_capacity(json.len() + scanner.blobs.len() * (pds.len() + 160));
    let mut copied = 0;
    for Blob { range, cid, new } in scanner.blobs {
        let url = serde_json::Value::String(url(pds, did, &cid)).to_string();
        out.push_str(json.get(copied..range.start)?);
        if new {
            out.push_str(",\"url\":");
        }
        out.push_str(&url);
        copied = range.end;
    }
    out.push_str(json.get(copied..)?);
    Some(out)
}

/// The CIDs of the blobs in `json`, the JSON text of a record, sorted and without duplicates.
pub fn cids(json: &str) -> Vec<String> {
    let mut scanner = Scanner { text: json.as_bytes(), at: 0, blobs: Vec::new() };
    if memmem::find(json.as_bytes(), b"\"blob\"").is_none() || scanner.value(0).is_none() {
        return Vec::new();
    }
    let mut cids: Vec<String> = scanner.blobs.into_iter().map(|blob| blob.cid).collect();
    cids.sort_unstable();
    cids.dedup();
    cids
}

/// A blob that gets a URL.
struct Blob {
    /// The range of the text that the URL replaces: the value of `url`, or the empty range before the closing brace.
    range: Range<usize>,
    cid: String,
    /// Whether the object has no key `url`, so that it must be written too.
    new: bool,
}

struct Scanner<'a> {
    text: &'a [u8],
    at: usize,
    blobs: Vec<Blob>,
}

/// The kinds of values that matter to the object around them.
enum ValueKind<'a> {
    Text(Cow<'a, [u8]>),
    /// An object with this `$link`.
    Link(String),
    Other,
}

impl<'a> Scanner<'a> {
    fn peek(&mut self) -> Option<u8> {
        self.at = skip_space(self.text, self.at);
        self.text.get(self.at).copied()
    }

    fn value(&mut self, depth: usize) -> Option<ValueKind<'a>> {
        if depth > MAX_DEPTH {
            return None;
        }
        match self.peek()? {
            b'{' => self.object(depth),
            b'[' => {
                self.at += 1;
                if self.peek()? == b']' {
                    self.at += 1;
                    return Some(ValueKind::Other);
                }
                while {
                    self.value(depth + 1)?;
                    self.more(b']')?
                } {}
                Some(ValueKind::Other)
            }
            b'"' => self.string().map(ValueKind::Text),
            _ => {
                let rest = &self.text[self.at..];
                self.at += rest.iter().position(|b| b",]} \n\r\t".contains(b)).unwrap_or(rest.len());
                Some(ValueKind::Other)
            }
        }
    }

    /// Skips `,` (returns true) or `close` (returns false).
    fn more(&mut self, close: u8) -> Option<bool> {
        let byte = self.peek()?;
        self.at += 1;
        match byte {
            b',' => Some(true),
            b if b == close => Some(false),
            _ => None,
        }
    }

    fn string(&mut self) -> Option<Cow<'a, [u8]>> {
        if self.peek()? != b'"' {
            return None;
        }
        let start = self.at + 1;
        let end = start + plain_len(self.text, start);
        if self.text.get(end)? == &b'"' {
            self.at = end + 1;
            return Some(Cow::Borrowed(&self.text[start..end]));
        }
        let mut text = Vec::new();
        self.at = unescape(self.text, start, &mut text)?;
        Some(Cow::Owned(text))
    }

    fn object(&mut self, depth: usize) -> Option<ValueKind<'a>> {
        self.at += 1;
        if self.peek()? == b'}' {
            self.at += 1;
            return Some(ValueKind::Other);
        }
        let (mut is_blob, mut link, mut reference, mut url) = (false, None, None, None);
        loop {
            let key = self.string()?;
            if self.peek()? != b':' {
                return None;
            }
            self.at += 1;
            self.peek()?;
            let (start, inner) = (self.at, self.blobs.len());
            let value = self.value(depth + 1)?;
            match (&*key, value) {
                (b"$type", ValueKind::Text(text)) => is_blob = &*text == b"blob",
                (b"$link", ValueKind::Text(text)) => link = String::from_utf8(text.into_owned()).ok(),
                (b"ref", ValueKind::Link(cid)) => reference = Some(cid),
                (b"url", _) => url = Some((start..self.at, inner..self.blobs.len())),
                _ => {}
            }
            if !self.more(b'}')? {
                break;
            }
        }
        if is_blob && let Some(cid) = reference {
            let close = self.at - 1;
            let blob = match url {
                Some((range, inside)) => {
                    // The replaced value may contain blobs; they disappear with it.
                    self.blobs.drain(inside);
                    Blob { range, cid, new: false }
                }
                None => Blob { range: close..close, cid, new: true },
            };
            self.blobs.push(blob);
        }
        Some(link.map_or(ValueKind::Other, ValueKind::Link))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    const PDS: &str = "https://pds.example.com";
    const DID: &str = "did:web:localhost%3A2583";
    const CID: &str = "bafkreiccldh766hwcnuxnf2wh6jgzepf2nlu2lvcllt63eww5p6chi4ity";

    fn blob() -> Value {
        json!({"$type": "blob", "ref": {"$link": CID}, "mimeType": "image/jpeg", "size": 10000})
    }

    fn url() -> String {
        format!("{PDS}/xrpc/com.atproto.sync.getBlob?did=did:web:localhost%253A2583&cid={CID}")
    }

    fn with_url() -> Value {
        let mut blob = blob();
        blob["url"] = url().into();
        blob
    }

    fn splice(record: &Value) -> Option<Value> {
        splice_urls(&record.to_string(), PDS, DID).map(|text| serde_json::from_str(&text).unwrap())
    }

    #[test]
    fn adds_the_url_at_the_end_and_changes_nothing_else() {
        let text = format!(
            "{{ \"a\" : 1.50, \"avatar\":\n{{\"$type\":\"blob\" , \"ref\": {{ \"$link\":\"{CID}\"}},\"size\":1 }} ,\"z\":\"\\u0041\"}}"
        );
        let out = splice_urls(&text, PDS, DID).unwrap();
        assert_eq!(out.replace(&format!(",\"url\":\"{}\"", url()), ""), text);
    }

    #[test]
    fn finds_blobs_at_any_depth_and_key_order() {
        let escaped = format!(r#"{{"x":{{"ref":{{"$link":"{CID}"}},"\u0024type":"blob"}}}}"#);
        assert!(splice_urls(&escaped, PDS, DID).unwrap().contains(&url()));
        let record =
            json!({"images": [{"alt": "{\"}]", "image": blob()}, blob()], "deep": {"a": [[blob()]]}});
        let expected = json!({"images": [{"alt": "{\"}]", "image": with_url()}, with_url()], "deep": {"a": [[with_url()]]}});
        assert_eq!(splice(&record).unwrap(), expected);
    }

    #[test]
    fn replaces_a_url_that_the_author_wrote() {
        for planted in [json!("https://evil.example"), json!({"x": blob()}), json!(null)] {
            let mut record = json!({"image": blob(), "other": blob()});
            record["image"]["url"] = planted;
            assert_eq!(splice(&record).unwrap(), json!({"image": with_url(), "other": with_url()}));
        }
    }

    #[test]
    fn ignores_what_is_not_a_blob() {
        for record in [
            json!({"text": "a \"blob\" of text"}),
            json!({"$type": "blob"}),
            json!({"$type": "blob", "ref": "x"}),
            json!({"$type": "other", "kind": "blob", "ref": {"$link": CID}}),
            json!({}),
        ] {
            assert_eq!(splice(&record), None, "{record}");
        }
        for broken in ["{\"a\":\"blob\"", "\"blob\"]", "{\"blob\"}", "[\"blob\",", ""] {
            assert_eq!(splice_urls(broken, PDS, DID), None, "{broken}");
        }
        let deep = format!("{}\"blob\"{}", "[".repeat(5000), "]".repeat(5000));
        assert_eq!(splice_urls(&deep, PDS, DID), None);
    }

    proptest! {
        #[test]
        fn the_result_is_json(
            keys in prop::collection::vec(prop_oneof![Just("url"), Just("ref"), Just("a"), Just("$type")], 1..5),
            pds in "https://[a-z\"\\\\]{1,8}",
        ) {
            let mut record = json!({"image": blob()});
            for key in keys {
                record = json!({key: record, "$type": "blob", "ref": {"$link": CID}});
            }
            let out = splice_urls(&record.to_string(), &pds, DID).unwrap();
            prop_assert!(serde_json::from_str::<Value>(&out).is_ok(), "{}", out);
        }

        #[test]
        fn never_panics(text in r#"[\{\}\[\]",:a\\ ]{0,40}"#) {
            let _ = splice_urls(&format!("{{\"a\":\"blob\",{text}"), PDS, DID);
        }
    }
}
