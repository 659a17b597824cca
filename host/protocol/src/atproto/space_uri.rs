//! Parses the addresses of spaces and of their records (spaces.md §2).

use std::fmt;
use std::str::FromStr;

use super::{Did, Nsid, RecordKey};

/// The second segment of every address of a space. It is not an NSID, so no address of a record in a repo has it.
const MARK: &str = "space";

/// Whether an AT URI is in a space: its second segment is `space`, so it names a space, a record in one, or nothing.
/// Places that take addresses of public records only use this to refuse the others (`docs/spaces.md`).
pub fn is_in_space(uri: &str) -> bool {
    uri.strip_prefix("at://").and_then(|rest| rest.split('/').nth(1)) == Some(MARK)
}

/// The address of a space: `at://<did>/space/<type>/<skey>`.
///
/// Two texts never mean the same space: the domain of the type must be in lower case. Signatures cover the text.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SpaceUri {
    /// The authority of the space.
    pub did: Did,
    /// The NSID of the space's type.
    pub kind: Nsid,
    pub skey: RecordKey,
}

/// The address of a record in a space: `at://<did>/space/<type>/<skey>/<author>/<collection>/<rkey>`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SpaceRecordUri {
    pub space: SpaceUri,
    pub author: Did,
    pub path: RecordPath,
}

/// The place of a record in its repo: `<collection>/<rkey>`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RecordPath {
    pub collection: Nsid,
    pub rkey: RecordKey,
}

/// Error for a text that is not the address of a space or of a record in a space.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum InvalidSpaceUri {
    #[error("not an address in a space: it does not begin with at://")]
    Scheme,
    #[error("ats:// is no longer used: write at://<did>/space/<type>/<skey>")]
    Legacy,
    #[error("not an address in a space: its second segment is not \"space\"")]
    Mark,
    #[error("not the address of a space (at://<did>/space/<type>/<skey>): it has {0} segments instead of 4")]
    SpaceSegments(usize),
    #[error(
        "not the address of a record in a space (at://<did>/space/<type>/<skey>/<author>/<collection>/<rkey>): \
         it has {0} segments instead of 7"
    )]
    RecordSegments(usize),
    #[error("not an address in a space: {0}")]
    Part(&'static str),
}

use InvalidSpaceUri::Part;

impl SpaceUri {
    /// # Errors
    /// When a segment is missing, extra or malformed.
    pub fn parse(text: &str) -> Result<Self, InvalidSpaceUri> {
        let segments = segments(text)?;
        let count = segments.len();
        let segments = segments.try_into().map_err(|_| InvalidSpaceUri::SpaceSegments(count))?;
        Self::of_segments(segments)
    }

    fn of_segments([did, mark, kind, skey]: [&str; 4]) -> Result<Self, InvalidSpaceUri> {
        if mark != MARK {
            return Err(InvalidSpaceUri::Mark);
        }
        Ok(Self {
            did: Did::try_from(did).map_err(|_| Part("the authority is not a DID"))?,
            kind: nsid(kind, "the type is not an NSID whose domain is in lower case")?,
            skey: RecordKey::try_from(skey).map_err(|_| {
                Part("the space key is not 1 to 512 letters, digits and the characters - . _ : ~")
            })?,
        })
    }

    /// The address of an author's record in this space.
    pub fn record(&self, author: Did, path: RecordPath) -> SpaceRecordUri {
        SpaceRecordUri { space: self.clone(), author, path }
    }
}

impl SpaceRecordUri {
    /// # Errors
    /// When a segment is missing, extra or malformed.
    pub fn parse(text: &str) -> Result<Self, InvalidSpaceUri> {
        let segments = segments(text)?;
        let &[did, mark, kind, skey, author, collection, rkey] = segments.as_slice() else {
            return Err(InvalidSpaceUri::RecordSegments(segments.len()));
        };
        Ok(Self {
            space: SpaceUri::of_segments([did, mark, kind, skey])?,
            author: Did::try_from(author).map_err(|_| Part("the author is not a DID"))?,
            path: RecordPath::of_parts(collection, rkey)?,
        })
    }
}

impl RecordPath {
    /// Reads `<collection>/<rkey>`.
    ///
    /// # Errors
    /// When a part is missing, extra or malformed.
    pub fn parse(text: &str) -> Result<Self, InvalidSpaceUri> {
        let (collection, rkey) = text.split_once('/').ok_or(Part("the record key is missing"))?;
        Self::of_parts(collection, rkey)
    }

    /// The path of a record in a collection.
    ///
    /// # Errors
    /// When a part is malformed.
    pub fn of_parts(collection: &str, rkey: &str) -> Result<Self, InvalidSpaceUri> {
        Ok(Self {
            collection: nsid(collection, "the collection is not an NSID whose domain is in lower case")?,
            rkey: RecordKey::try_from(rkey).map_err(|_| Part("the record key is malformed"))?,
        })
    }
}

/// The segments of an address, none of them empty.
fn segments(text: &str) -> Result<Vec<&str>, InvalidSpaceUri> {
    if text.starts_with("ats://") {
        return Err(InvalidSpaceUri::Legacy);
    }
    let rest = text.strip_prefix("at://").ok_or(InvalidSpaceUri::Scheme)?;
    // The longest address has seven.
    let segments: Vec<&str> = rest.splitn(8, '/').collect();
    if segments.contains(&"") { Err(Part("a segment is empty")) } else { Ok(segments) }
}

fn nsid(text: &str, why: &'static str) -> Result<Nsid, InvalidSpaceUri> {
    Nsid::try_from(text).ok().filter(|nsid| nsid.as_str() == text).ok_or(Part(why))
}

impl fmt::Display for SpaceUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at://{}/{MARK}/{}/{}", self.did, self.kind, self.skey)
    }
}

impl fmt::Display for SpaceRecordUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.space, self.author, self.path)
    }
}

impl fmt::Display for RecordPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.collection, self.rkey)
    }
}

macro_rules! from_text {
    ($($type:ident),+) => {$(
        impl FromStr for $type {
            type Err = InvalidSpaceUri;

            fn from_str(text: &str) -> Result<Self, InvalidSpaceUri> {
                Self::parse(text)
            }
        }
    )+};
}
from_text!(SpaceUri, SpaceRecordUri, RecordPath);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::atproto::RecordUri;

    const SPACE: &str = "at://did:plc:abc/space/com.example.group/main";
    const RECORD: &str =
        "at://did:plc:abc/space/com.example.group/main/did:web:localhost%3A2583/com.example.note/3k";

    #[test]
    fn reads_and_shows_the_same_text() {
        let space = SpaceUri::parse(SPACE).unwrap();
        let record: SpaceRecordUri = RECORD.parse().unwrap();
        assert_eq!((space.to_string().as_str(), record.to_string().as_str()), (SPACE, RECORD));
        assert_eq!(space.record(record.author.clone(), record.path.clone()), record);
        assert_eq!(RecordPath::parse("com.example.note/3k"), Ok(record.path));
    }

    #[test]
    fn rejects_what_is_not_the_address_of_a_space() {
        let long = format!("at://did:plc:abc/space/com.example.group/{}", "a".repeat(513));
        for (text, why) in [
            ("https://example.com", "does not begin with at://"),
            ("ats://did:plc:abc/com.example.group/main", "write at://<did>/space/<type>/<skey>"),
            ("at://did:plc:abc", "1 segments instead of 4"),
            ("at://did:plc:abc/space/com.example.group", "3 segments instead of 4"),
            (RECORD, "7 segments instead of 4"),
            ("at://did:plc:abc/space/com.example.group/main/", "a segment is empty"),
            ("at://did:plc:abc/space//main", "a segment is empty"),
            ("at://did:plc:abc/spaces/com.example.group/main", "second segment"),
            ("at://alice.test/space/com.example.group/main", "authority is not a DID"),
            ("at://did:plc:abc/space/group/main", "type is not an NSID"),
            ("at://did:plc:abc/space/COM.example.group/main", "lower case"),
            ("at://did:plc:abc/space/com.example.group/a b", "space key"),
            ("at://did:plc:abc/space/com.example.group/..", "space key"),
            (&long, "space key"),
        ] {
            let error = SpaceUri::parse(text).unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    #[test]
    fn rejects_what_is_not_the_address_of_a_record_in_a_space() {
        let with = |author: &str, path: &str| format!("{SPACE}/{author}/{path}");
        for (text, why) in [
            (SPACE.to_owned(), "4 segments instead of 7"),
            (format!("{RECORD}/x"), "8 segments instead of 7"),
            (format!("{RECORD}/x/y/z"), "8 segments instead of 7"),
            (format!("ats{}", RECORD.trim_start_matches("at")), "no longer used"),
            (with("alice.test", "com.example.note/3k"), "author is not a DID"),
            (with("did:plc:a", "note/3k"), "collection is not an NSID"),
            (with("did:plc:a", "com.example.note/a#b"), "record key is malformed"),
        ] {
            let error = SpaceRecordUri::parse(&text).unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    #[test]
    fn no_text_is_both_in_a_repo_and_in_a_space() {
        const NOTE: &str = "at://did:plc:abc/com.example.note/3k";
        assert!(RecordUri::parse(SPACE).is_err() && RecordUri::parse(RECORD).is_err());
        assert!(SpaceUri::parse(NOTE).is_err());
        for uri in [SPACE, RECORD, "at://did:plc:abc/space", "at://alice.test/space/x"] {
            assert!(is_in_space(uri), "{uri}");
        }
        for uri in
            [NOTE, "", "at://", "at://space", "at://did:plc:abc", "at://did:plc:abc/spaces/x", "did:plc:abc"]
        {
            assert!(!is_in_space(uri), "{uri}");
        }
    }

    proptest! {
        #[test]
        fn accepted_texts_are_shown_unchanged(
            text in r"at://did:(plc|web):[a-z.%]{1,8}/space/[a-zA-Z.]{1,12}/[a-z~:]{1,4}(/did:plc:[a-z]{1,4}/[a-z.]{1,9}/[a-z]{1,3})?",
        ) {
            if let Ok(uri) = SpaceUri::parse(&text) {
                prop_assert!(is_in_space(&text));
                prop_assert_eq!(uri.to_string(), text.as_str());
            }
            if let Ok(uri) = SpaceRecordUri::parse(&text) {
                prop_assert!(is_in_space(&text));
                prop_assert_eq!(uri.to_string(), text);
            }
        }

        #[test]
        fn never_panics(text in "(ats?://)?.{0,40}") {
            let _ = (SpaceUri::parse(&text), SpaceRecordUri::parse(&text), RecordPath::parse(&text), is_in_space(&text));
        }
    }
}
