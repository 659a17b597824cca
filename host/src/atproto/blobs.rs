//! Gives the blobs of a record a `url` where their bytes can be had.

use std::borrow::Cow;
use std::ops::Range;

use memchr::memmem;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::json::{plain_len, skip_space, unescape};
use super::record::MAX_DEPTH;

/// What a query value keeps as it is: RFC 3986's unreserved characters and the colon, which DIDs are full of.
const QUERY: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b':');

/// Where the PDS at an origin gives out a blob.
pub fn url(pds: &str, did: &str, cid: &str) -> String {
    let [did, cid] = [did, cid].map(|text| utf8_percent_encode(text, QUERY));
    format!("{pds}/xrpc/com.atproto.sync.getBlob?did={did}&cid={cid}")
}

/// Adds `url` to every `{"$type":"blob"}` of `json`, the JSON text of a record of `did` whose repo `pds` (an origin)
/// hosts; the rest of the text is untouched. A `url` that the record's author put there is replaced: the caller takes
/// it for ours. `None` when there is nothing to add, or when the text is not the JSON that [`super::record::inspect`]
/// accepts.
pub fn splice_urls(json: &str, pds: &str, did: &str) -> Option<String> {
    // Nearly every record ends here. A writer that escapes the letters of "blob" goes without URLs.
    memmem::find(json.as_bytes(), b"\"blob\"")?;
    let mut walk = Walk { text: json.as_bytes(), at: 0, blobs: Vec::new() };
    walk.value(0)?;
    if walk.blobs.is_empty() {
        return None;
    }
    walk.blobs.sort_unstable_by_key(|blob| blob.place.start);
    let mut out = String::with_capacity(json.len() + walk.blobs.len() * (pds.len() + 160));
    let mut copied = 0;
    for Blob { place, cid, new } in walk.blobs {
        let url = serde_json::Value::String(url(pds, did, &cid)).to_string();
        // Blobs do not nest in a `url` that is replaced unless somebody means mischief: those inside are gone with it.
        out.push_str(json.get(copied..place.start)?);
        if new {
            out.push_str(",\"url\":");
        }
        out.push_str(&url);
        copied = place.end;
    }
    out.push_str(json.get(copied..)?);
    Some(out)
}

/// A blob that gets a URL.
struct Blob {
    /// What of the text the URL replaces: the value of `url`, or nothing before the closing brace.
    place: Range<usize>,
    cid: String,
    /// Whether the key must be written too.
    new: bool,
}

struct Walk<'a> {
    text: &'a [u8],
    at: usize,
    blobs: Vec<Blob>,
}

/// What a value means to the object around it.
enum Found<'a> {
    Text(Cow<'a, [u8]>),
    /// An object with this `$link`.
    Link(String),
    Other,
}

impl<'a> Walk<'a> {
    fn peek(&mut self) -> Option<u8> {
        self.at = skip_space(self.text, self.at);
        self.text.get(self.at).copied()
    }

    fn value(&mut self, depth: usize) -> Option<Found<'a>> {
        if depth > MAX_DEPTH {
            return None;
        }
        match self.peek()? {
            b'{' => self.object(depth),
            b'[' => {
                self.at += 1;
                if self.peek()? == b']' {
                    self.at += 1;
                    return Some(Found::Other);
                }
                while {
                    self.value(depth + 1)?;
                    self.more(b']')?
                } {}
                Some(Found::Other)
            }
            b'"' => self.string().map(Found::Text),
            _ => {
                let rest = &self.text[self.at..];
                self.at += rest.iter().position(|b| b",]} \n\r\t".contains(b)).unwrap_or(rest.len());
                Some(Found::Other)
            }
        }
    }

    /// Steps over `,` (true) or `close` (false).
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

    fn object(&mut self, depth: usize) -> Option<Found<'a>> {
        self.at += 1;
        if self.peek()? == b'}' {
            self.at += 1;
            return Some(Found::Other);
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
                (b"$type", Found::Text(text)) => is_blob = &*text == b"blob",
                (b"$link", Found::Text(text)) => link = String::from_utf8(text.into_owned()).ok(),
                (b"ref", Found::Link(cid)) => reference = Some(cid),
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
                Some((place, inside)) => {
                    self.blobs.drain(inside);
                    Blob { place, cid, new: false }
                }
                None => Blob { place: close..close, cid, new: true },
            };
            self.blobs.push(blob);
        }
        Some(link.map_or(Found::Other, Found::Link))
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
    fn adds_the_url_at_the_end_and_touches_nothing_else() {
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
    fn replaces_a_url_of_the_authors() {
        for planted in [json!("https://evil.example"), json!({"x": blob()}), json!(null)] {
            let mut record = json!({"image": blob(), "other": blob()});
            record["image"]["url"] = planted;
            assert_eq!(splice(&record).unwrap(), json!({"image": with_url(), "other": with_url()}));
        }
    }

    #[test]
    fn leaves_alone_what_is_no_blob() {
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
        fn what_it_writes_is_json_again(
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
