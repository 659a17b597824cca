//! Parses the AT URI of one record: `at://<did>/<collection>/<rkey>`.

use std::fmt;

use super::space_uri::is_in_space;
use super::{Did, Handle, Nsid, RecordKey};

/// The address of exactly one record. Stricter than [`shrike::syntax::AtUri`]: the authority is a DID, collection and
/// record key are present, and nothing follows. The index is keyed by these three fields; the text is never stored.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RecordUri {
    pub did: Did,
    pub collection: Nsid,
    pub rkey: RecordKey,
}

/// Error for a text that is not the AT URI of a record.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("not the AT URI of a record (at://<did>/<collection>/<rkey>): {0}")]
pub struct InvalidRecordUri(&'static str);

impl RecordUri {
    /// Reads `at://<did>/<collection>/<rkey>`.
    ///
    /// # Errors
    /// When a component is missing, extra or malformed, or the authority is a handle.
    pub fn parse(text: &str) -> Result<Self, InvalidRecordUri> {
        let (authority, collection, rkey) = parts(text)?;
        let did = Did::try_from(authority).map_err(|_| {
            let is_handle = Handle::try_from(authority).is_ok();
            InvalidRecordUri(if is_handle {
                "the authority is a handle: name the account by its DID"
            } else {
                "the authority is not a DID"
            })
        })?;
        Ok(Self { did, collection, rkey })
    }
}

/// Authority, collection and record key of an AT URI.
fn parts(text: &str) -> Result<(&str, Nsid, RecordKey), InvalidRecordUri> {
    let rest = text.strip_prefix("at://").ok_or(InvalidRecordUri("it does not begin with at://"))?;
    let mut parts = rest.splitn(3, '/');
    let mut part = |missing| parts.next().filter(|p| !p.is_empty()).ok_or(InvalidRecordUri(missing));
    let authority = part("the DID is missing")?;
    let collection = part("the collection is missing")?;
    let rkey = part("the record key is missing")?;
    let collection = Nsid::try_from(collection).map_err(|_| {
        InvalidRecordUri(if is_in_space(text) {
            "it is an address in a space"
        } else {
            "the collection is not an NSID"
        })
    })?;
    let rkey = RecordKey::try_from(rkey).map_err(|_| InvalidRecordUri("the record key is malformed"))?;
    Ok((authority, collection, rkey))
}

/// The address of exactly one record whose account is named by its handle: `at://<handle>/<collection>/<rkey>`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandleUri {
    pub handle: Handle,
    pub collection: Nsid,
    rkey: RecordKey,
}

impl HandleUri {
    /// `None` for any other text.
    pub fn parse(text: &str) -> Option<Self> {
        let (authority, collection, rkey) = parts(text).ok()?;
        Some(Self { handle: Handle::try_from(authority).ok()?, collection, rkey })
    }

    /// The same record of the account that the handle belongs to.
    pub fn of(self, did: Did) -> RecordUri {
        RecordUri { did, collection: self.collection, rkey: self.rkey }
    }
}

impl fmt::Display for RecordUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at://{}/{}/{}", self.did, self.collection, self.rkey)
    }
}

#[cfg(test)]
mod tests {
    use belvedere_standins::vectors;
    use proptest::prelude::*;

    use shrike::syntax::AtUri;

    use super::*;

    const IN_SPACE: &str =
        "at://did:plc:abc/space/com.example.group/main/did:plc:author/com.example.note/3jzfcijpj2z2a";

    #[test]
    fn reads_and_shows_the_same_text() {
        let text = "at://did:plc:abc123/com.example.note/3jzfcijpj2z2a";
        assert_eq!(RecordUri::parse(text).unwrap().to_string(), text);
    }

    #[test]
    fn rejects_what_is_not_the_uri_of_one_record() {
        for (text, why) in [
            ("https://example.com", "at://"),
            ("at://", "DID is missing"),
            ("at://did:plc:abc", "collection is missing"),
            ("at://did:plc:abc/com.example.note", "record key is missing"),
            ("at://did:plc:abc/com.example.note/", "record key is missing"),
            ("at://alice.test/com.example.note/self", "is a handle: name the account by its DID"),
            ("at://alice/com.example.note/self", "not a DID"),
            ("at://did:plc:abc/note/self", "not an NSID"),
            ("at://did:plc:abc/space/com.example.group/main", "an address in a space"),
            (IN_SPACE, "an address in a space"),
            ("at://did:plc:abc/com.example.note/a/b", "record key is malformed"),
            ("at://did:plc:abc/com.example.note/a#b", "record key is malformed"),
        ] {
            let error = RecordUri::parse(text).unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    #[test]
    fn a_handle_names_the_account() {
        let did = Did::try_from("did:plc:abc").unwrap();
        let named = HandleUri::parse("at://alice.test/com.example.note/self").unwrap();
        assert_eq!(named.handle.as_str(), "alice.test");
        assert_eq!(named.of(did).to_string(), "at://did:plc:abc/com.example.note/self");
        for other in [
            "at://did:plc:abc/com.example.note/self",
            "at://alice.test/note/self",
            "at://alice.test/space/com.example.group/main/did:plc:author/com.example.note/self",
            IN_SPACE,
            "at://alice.test",
            "alice.test",
        ] {
            assert_eq!(HandleUri::parse(other), None, "{other}");
        }
    }

    #[test]
    fn is_stricter_than_the_protocols_at_uri() {
        for case in vectors::lines("syntax/aturi_syntax_invalid.txt").unwrap_or_default() {
            assert!(RecordUri::parse(&case).is_err(), "{case}");
        }
        for case in vectors::lines("syntax/aturi_syntax_valid.txt").unwrap_or_default() {
            let names_a_record = case.starts_with("at://did:") && case.split('/').count() == 5;
            assert_eq!(RecordUri::parse(&case).is_ok(), names_a_record, "{case}");
        }
    }

    proptest! {
        #[test]
        fn what_it_accepts_is_an_at_uri_and_reads_back(text in r"at://(did:(plc|web):[a-z0-9.%:]{0,12}|[a-z.]{0,8})(/[a-zA-Z.]{0,12}){0,2}(/[a-z0-9.#?~:_-]{0,6})?") {
            if let Ok(uri) = RecordUri::parse(&text) {
                // shrike rejects `%` in DIDs, which did:web has for a port.
                prop_assert!(text.contains('%') || AtUri::try_from(text.as_str()).is_ok());
                // Not always the same text: the domain in an NSID is lower case.
                prop_assert_eq!(RecordUri::parse(&uri.to_string()), Ok(uri));
            }
        }

        #[test]
        fn never_panics(text in "(at://)?.{0,40}") {
            let _ = RecordUri::parse(&text);
        }
    }
}
