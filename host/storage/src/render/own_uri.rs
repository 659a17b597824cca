//! Finds a record's own top-level `uri` fields in its JSON text, without parsing the values.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::sync::LazyLock;

use memchr::memmem::Finder;
use serde::de::{Deserializer as _, MapAccess, Visitor};
use serde_json::value::RawValue;

static URI: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("\"uri\""));

/// Positions in the text of an object.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct OwnUri {
    /// The text between the braces, without whitespace at its ends.
    pub(super) members: Range<usize>,
    /// `"uri": value`, without commas; more than one in a text that repeats the key.
    pub(super) uris: Vec<Range<usize>>,
}

/// The store holds JSON objects only. Nothing is found in any other text.
pub(super) fn find(text: &[u8]) -> OwnUri {
    let (Some(open), Some(close)) = (memchr::memchr(b'{', text), memchr::memrchr(b'}', text)) else {
        return OwnUri::default();
    };
    if close <= open {
        return OwnUri::default();
    }
    let inner = &text[open + 1..close];
    let start = open + 1 + (inner.len() - inner.trim_ascii_start().len());
    let members = start..(start + inner.trim_ascii().len());
    let mut uris = Vec::new();
    // A key can be written with escapes, `"\u0075ri"`.
    if (URI.find(text).is_some() || memchr::memchr(b'\\', text).is_some())
        && let Ok(text) = std::str::from_utf8(text)
    {
        let mut deserializer = serde_json::Deserializer::from_str(text);
        // An error ends the search; what was found before it stays.
        let _ = deserializer.deserialize_map(UriFields { text, found: &mut uris });
    }
    OwnUri { members, uris }
}

/// Collects the positions of the fields named `uri`.
struct UriFields<'a, 'f> {
    text: &'a str,
    found: &'f mut Vec<Range<usize>>,
}

impl<'a> Visitor<'a> for UriFields<'a, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        // Raw values are slices of the text, so their addresses give their positions.
        let position = |part: &str| part.as_ptr().addr() - self.text.as_ptr().addr();
        while let Some((key, value)) = map.next_entry::<&RawValue, &RawValue>()? {
            if is_uri(key.get()) {
                self.found.push(position(key.get())..position(value.get()) + value.get().len());
            }
        }
        Ok(())
    }
}

/// Whether a key, as it is written, is `uri`.
fn is_uri(key: &str) -> bool {
    key == "\"uri\""
        || (key.contains('\\') && serde_json::from_str::<Cow<'_, str>>(key).is_ok_and(|key| key == "uri"))
}
