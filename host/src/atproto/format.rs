//! Checks strings against the formats that lexicons name.

use shrike::syntax::{Datetime, Handle, Language};

use super::{Did, Nsid, RecordKey, Tid};

/// The value of `format` in a string's definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StringFormat {
    AtIdentifier,
    AtUri,
    Cid,
    Datetime,
    Did,
    Handle,
    Language,
    Nsid,
    RecordKey,
    Tid,
    Uri,
}

impl StringFormat {
    /// `None` for a name that the protocol does not know.
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "at-identifier" => Self::AtIdentifier,
            "at-uri" => Self::AtUri,
            "cid" => Self::Cid,
            "datetime" => Self::Datetime,
            "did" => Self::Did,
            "handle" => Self::Handle,
            "language" => Self::Language,
            "nsid" => Self::Nsid,
            "record-key" => Self::RecordKey,
            "tid" => Self::Tid,
            "uri" => Self::Uri,
            _ => return None,
        })
    }

    pub fn accepts(self, text: &str) -> bool {
        match self {
            Self::AtIdentifier => Did::is_valid(text) || Handle::try_from(text).is_ok(),
            Self::AtUri => is_at_uri(text),
            Self::Cid => is_cid(text),
            Self::Datetime => is_datetime(text),
            Self::Did => Did::is_valid(text),
            Self::Handle => Handle::try_from(text).is_ok(),
            Self::Language => Language::try_from(text).is_ok(),
            Self::Nsid => Nsid::try_from(text).is_ok(),
            Self::RecordKey => RecordKey::try_from(text).is_ok(),
            Self::Tid => Tid::try_from(text).is_ok(),
            Self::Uri => is_uri(text),
        }
    }
}

/// `at://<did or handle>[/<collection>[/<rkey>]]`; the handle may have any letter case.
fn is_at_uri(text: &str) -> bool {
    if Did::is_valid(text.strip_prefix("at://").unwrap_or_default()) {
        return true;
    }
    // `shrike` rejects DIDs with `%`: check the DID here, and let `shrike` check the path behind another DID.
    match text.strip_prefix("at://").and_then(|rest| rest.split_once('/')) {
        Some((authority, path)) if authority.contains('%') => {
            Did::is_valid(authority)
                && super::AtUri::try_from(format!("at://did:plc:x/{path}").as_str()).is_ok()
        }
        _ => super::AtUri::try_from(text).is_ok(),
    }
}

/// The protocol's profile of RFC 3339; the time must lie in the years 0 to 9999, UTC.
fn is_datetime(text: &str) -> bool {
    /// 0000-01-01T00:00:00Z in seconds since the epoch.
    const YEAR_ZERO: i64 = -62_167_219_200;
    Datetime::try_from(text).is_ok_and(|_| {
        // jiff rejects fractions finer than nanoseconds. Whole seconds are enough to see whether the time exists.
        let (date, rest) = text.split_once('.').unwrap_or((text, ""));
        let zone = rest.trim_start_matches(|c: char| c.is_ascii_digit());
        format!("{date}{zone}").parse::<jiff::Timestamp>().is_ok_and(|t| t.as_second() >= YEAR_ZERO)
    })
}

/// The syntax of a CID of any version but 0, in any base. [`super::Cid`] accepts only the CIDs of records and blobs.
fn is_cid(text: &str) -> bool {
    (8..=256).contains(&text.len())
        && !text.starts_with("Qmb")
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'+' || b == b'=')
}

/// `scheme:` and any printable ASCII without spaces.
fn is_uri(text: &str) -> bool {
    /// The protocol's limit on the length of a URI, in bytes.
    const MAX_BYTES: usize = 8 * 1024;
    let Some((scheme, rest)) = text.split_once(':') else { return false };
    text.len() <= MAX_BYTES
        && scheme.starts_with(|c: char| c.is_ascii_lowercase())
        && scheme.len() <= 81
        && scheme.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b".+-".contains(&b))
        && !rest.is_empty()
        && rest.bytes().all(|b| b.is_ascii_graphic())
}

#[cfg(test)]
mod tests {
    use super::super::vectors::lines;
    use super::*;

    #[test]
    fn the_interop_vectors_hold() {
        for (name, format) in [
            ("atidentifier", StringFormat::AtIdentifier),
            ("aturi", StringFormat::AtUri),
            ("cid", StringFormat::Cid),
            ("datetime", StringFormat::Datetime),
            ("did", StringFormat::Did),
            ("handle", StringFormat::Handle),
            ("language", StringFormat::Language),
            ("nsid", StringFormat::Nsid),
            ("recordkey", StringFormat::RecordKey),
            ("tid", StringFormat::Tid),
            ("uri", StringFormat::Uri),
        ] {
            let mut wrong = Vec::new();
            for (suffix, valid) in [("valid", true), ("invalid", false)] {
                let cases = lines(&format!("syntax/{name}_syntax_{suffix}.txt")).unwrap_or_default();
                wrong.extend(cases.into_iter().filter(|c| format.accepts(c) != valid).map(|c| (suffix, c)));
            }
            assert!(wrong.is_empty(), "{name}: {wrong:#?}");
        }
    }

    #[test]
    fn dates_that_do_not_exist_are_rejected() {
        for case in lines("syntax/datetime_parse_invalid.txt").unwrap_or_default() {
            assert!(!StringFormat::Datetime.accepts(&case), "{case}");
        }
    }

    #[test]
    fn at_uris_may_have_dids_with_ports() {
        assert!(StringFormat::AtUri.accepts("at://did:web:localhost%3A2583/com.example.note/self"));
        assert!(!StringFormat::AtUri.accepts("at://did:web:localhost%3A2583/note/self"));
    }
}
