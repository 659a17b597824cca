//! Finds a record's own top-level `uri` fields in its JSON text without parsing the other fields.

use std::ops::Range;
use std::sync::LazyLock;

use memchr::memmem::Finder;
use memchr::{memchr2, memrchr};

static URI: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("\"uri\""));

/// Positions in the JSON text of an object.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct OwnUri {
    /// The text between the braces, without whitespace at both ends.
    pub(super) members: Range<usize>,
    /// Each `"uri": value`, without commas. More than one if the text has duplicate keys.
    pub(super) uris: Vec<Range<usize>>,
}

/// Scans `text`, which comes from the store and so is a JSON object. Other text gives no useful result, but no panic.
pub(super) fn find(text: &[u8]) -> OwnUri {
    let (Some(open), Some(close)) = (memchr::memchr(b'{', text), memrchr(b'}', text)) else {
        return OwnUri::default();
    };
    if close <= open {
        return OwnUri::default();
    }
    let inner = &text[open + 1..close];
    let start = open + 1 + (inner.len() - inner.trim_ascii_start().len());
    let members = start..(start + inner.trim_ascii().len());
    // A key can be written with escapes, `"\u0075ri"`.
    let uris = if URI.find(text).is_some() || memchr::memchr(b'\\', text).is_some() {
        scan(text, members.clone())
    } else {
        Vec::new()
    };
    OwnUri { members, uris }
}

/// Scans the members: a string, a colon, a value, a comma. Stops where the text is not JSON.
fn scan(text: &[u8], members: Range<usize>) -> Vec<Range<usize>> {
    let text = &text[..members.end];
    let mut found = Vec::new();
    let mut at = members.start;
    loop {
        at = skip_whitespace(text, at);
        let Some(key_end) = skip_string(text, at) else { return found };
        let key = &text[at..key_end];
        let colon = skip_whitespace(text, key_end);
        if text.get(colon) != Some(&b':') {
            return found;
        }
        let Some(end) = skip_value(text, skip_whitespace(text, colon + 1)) else { return found };
        if is_uri(key) {
            found.push(at..end);
        }
        at = skip_whitespace(text, end);
        if text.get(at) != Some(&b',') {
            return found;
        }
        at += 1;
    }
}

fn is_uri(key: &[u8]) -> bool {
    key == b"\"uri\""
        || (key.contains(&b'\\') && serde_json::from_slice::<String>(key).is_ok_and(|k| k == "uri"))
}

fn skip_whitespace(text: &[u8], mut at: usize) -> usize {
    while matches!(text.get(at), Some(b' ' | b'\t' | b'\n' | b'\r')) {
        at += 1;
    }
    at
}

/// The end of the string that begins here.
fn skip_string(text: &[u8], at: usize) -> Option<usize> {
    if text.get(at) != Some(&b'"') {
        return None;
    }
    let mut at = at + 1;
    loop {
        let next = at + memchr2(b'"', b'\\', text.get(at..)?)?;
        if text[next] == b'"' {
            return Some(next + 1);
        }
        at = next + 2;
    }
}

/// The end of the value that begins here.
fn skip_value(text: &[u8], mut at: usize) -> Option<usize> {
    let mut depth = 0_usize;
    loop {
        match text.get(at)? {
            b'"' => at = skip_string(text, at)?,
            b'{' | b'[' => {
                depth += 1;
                at += 1;
            }
            b'}' | b']' => {
                depth = depth.checked_sub(1)?;
                at += 1;
            }
            b',' | b':' | b' ' | b'\t' | b'\n' | b'\r' if depth > 0 => {
                at += 1;
                continue;
            }
            b',' | b':' | b' ' | b'\t' | b'\n' | b'\r' => return None,
            // A number, true, false, null.
            _ => {
                while at < text.len() && !b",:]} \t\n\r".contains(&text[at]) {
                    at += 1;
                }
            }
        }
        if depth == 0 {
            return Some(at);
        }
    }
}
