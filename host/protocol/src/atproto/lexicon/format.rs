//! The formats of strings (specs/lexicon, String Formats). `docs/validation.md` says where and why they differ from the
//! reference implementation.

use data_encoding::BASE32_NOPAD;
use shrike::cbor::json::parse_cid;
use shrike::cbor::varint::decode_varint;
use shrike::syntax::{AtUriRef, DatetimeRef, Language};

use crate::atproto::space_uri::SpaceUri;
use crate::atproto::{Did, Handle, Nsid, RecordKey, Tid};

/// Bytes of a `uri` (specs/lexicon, `uri`: 8 KBytes).
const MAX_URI_BYTES: usize = 8 << 10;

/// The characters that name a base of multiformats, but `b` (base32), in which atproto writes CIDs.
const OTHER_BASES: &[u8] = b"079fFvVtTBcChkKzZmMuU";

/// Bytes of a CID in a base that is not decoded here.
const CID_BYTES: std::ops::RangeInclusive<usize> = 8..=256;

/// The format of a string (specs/lexicon, String Formats).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    AtIdentifier,
    AtUri,
    Cid,
    Datetime,
    Did,
    Handle,
    Language,
    Nsid,
    RecordKey,
    /// The address of a space. No format is that of a record in a space.
    SpaceRef,
    Tid,
    Uri,
}

impl Format {
    const ALL: [Self; 12] = [
        Self::AtIdentifier,
        Self::AtUri,
        Self::Cid,
        Self::Datetime,
        Self::Did,
        Self::Handle,
        Self::Language,
        Self::Nsid,
        Self::RecordKey,
        Self::SpaceRef,
        Self::Tid,
        Self::Uri,
    ];

    /// The name in lexicons.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::AtIdentifier => "at-identifier",
            Self::AtUri => "at-uri",
            Self::Cid => "cid",
            Self::Datetime => "datetime",
            Self::Did => "did",
            Self::Handle => "handle",
            Self::Language => "language",
            Self::Nsid => "nsid",
            Self::RecordKey => "record-key",
            Self::SpaceRef => "space-ref",
            Self::Tid => "tid",
            Self::Uri => "uri",
        }
    }

    /// `None` for the formats of later versions of the protocol, and for typing errors.
    pub(super) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.name() == name)
    }

    pub(super) fn accepts(self, text: &str) -> bool {
        match self {
            Self::AtIdentifier if text.starts_with("did:") => Did::is_valid(text),
            Self::AtIdentifier | Self::Handle => Handle::try_from(text).is_ok(),
            Self::AtUri => is_at_uri(text),
            Self::Cid => is_cid(text),
            Self::Datetime => is_datetime(text),
            Self::Did => Did::is_valid(text),
            Self::Language => Language::try_from(text).is_ok(),
            Self::Nsid => Nsid::try_from(text).is_ok(),
            Self::RecordKey => RecordKey::try_from(text).is_ok(),
            Self::SpaceRef => SpaceUri::parse(text).is_ok(),
            Self::Tid => Tid::try_from(text).is_ok(),
            Self::Uri => is_uri(text),
        }
    }
}

/// `shrike` rejects `%` in DIDs, which `did:web:localhost%3A2583` has.
fn is_at_uri(text: &str) -> bool {
    if AtUriRef::try_from(text).is_ok() {
        return true;
    }
    let Some(rest) = text.strip_prefix("at://").filter(|rest| rest.contains('%')) else { return false };
    let end = rest.find(['/', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    Did::is_valid(authority) && AtUriRef::try_from(format!("at://did:web:a{path}").as_str()).is_ok()
}

/// The syntax with a day that the month has, and without leap seconds.
fn is_datetime(text: &str) -> bool {
    // The syntax has digits at these places.
    let number = |at: std::ops::Range<usize>| {
        let digits = text.as_bytes().get(at).unwrap_or_default();
        digits.iter().fold(0, |number, digit| number * 10 + u32::from(*digit & 0x0f))
    };
    let (year, month, day, second) = (number(0..4), number(5..7), number(8..10), number(17..19));
    let days = match month {
        2 if year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400)) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    day <= days && second < 60 && DatetimeRef::try_from(text).is_ok()
}

/// A CID of version 1 with any codec and hash, in any base.
fn is_cid(text: &str) -> bool {
    let Some(base32) = text.strip_prefix('b') else {
        let is_digit = |byte: u8| byte.is_ascii_alphanumeric() || b"+/=-_".contains(&byte);
        return CID_BYTES.contains(&text.len())
            && text.bytes().next().is_some_and(|base| OTHER_BASES.contains(&base))
            && text.bytes().all(is_digit);
    };
    parse_cid(text).is_ok() || is_other_cid(base32).unwrap_or_default()
}

/// A CID whose codec or hash is not one of those that records link to.
fn is_other_cid(base32: &str) -> Option<bool> {
    if base32.len() > *CID_BYTES.end() || base32.bytes().any(|byte| byte.is_ascii_uppercase()) {
        return None;
    }
    let bytes = BASE32_NOPAD.decode(base32.to_ascii_uppercase().as_bytes()).ok()?;
    let mut rest = bytes.as_slice();
    let mut number = || {
        let (value, length) = decode_varint(rest).ok()?;
        rest = rest.get(length..)?;
        Some(value)
    };
    let (version, _codec, _hash, length) = (number()?, number()?, number()?, number()?);
    Some(version == 1 && rest.len() as u64 == length)
}

/// A scheme and anything but spaces: RFC 3986 without the rules of single schemes, as other implementations check it. The
/// reference implementation has schemes that begin with a digit or contain `_`, but none with `+`, `-` or `.`.
fn is_uri(text: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let is_scheme = |scheme: &str| match scheme.as_bytes() {
        [first, rest @ ..] if first.is_ascii_alphabetic() => {
            rest.iter().all(|byte| is_word(*byte) || b"+.-".contains(byte))
        }
        [] => false,
        word => word.iter().all(|byte| is_word(*byte)),
    };
    let is_space = |c: char| c.is_whitespace() || c == '\u{feff}';
    text.len() <= MAX_URI_BYTES
        && text.split_once(':').is_some_and(|(scheme, rest)| {
            is_scheme(scheme) && !rest.trim_start_matches('/').is_empty() && !rest.contains(is_space)
        })
}

#[cfg(test)]
mod tests {
    use belvedere_standins::vectors;

    use super::*;

    /// The specification's own example of the smallest datetime normalizes to a negative time too.
    const ALLOWED: [&str; 1] = ["0000-01-01T00:00:00+01:00"];

    #[test]
    fn the_interop_vectors_hold() {
        let files = |format: Format| match format {
            Format::AtIdentifier => "atidentifier",
            Format::AtUri => "aturi",
            Format::RecordKey => "recordkey",
            other => other.name(),
        };
        let mut count = 0;
        for format in Format::ALL {
            let mut wrong = Vec::new();
            for (suffix, valid) in
                [("syntax_valid", true), ("syntax_invalid", false), ("parse_invalid", false)]
            {
                let cases = vectors::lines(&format!("syntax/{}_{suffix}.txt", files(format)));
                for case in cases.unwrap_or_default() {
                    count += 1;
                    if format.accepts(&case) != valid && !ALLOWED.contains(&case.as_str()) {
                        wrong.push((suffix, case));
                    }
                }
            }
            assert!(wrong.is_empty(), "{format:?}: {wrong:#?}");
        }
        assert!(count == 0 || count > 400, "{count} vectors");
    }

    #[test]
    fn values_of_the_network_are_accepted_as_they_are() {
        for (format, valid, invalid) in [
            (
                Format::AtUri,
                "at://did:web:localhost%3A2583/com.example.note/a",
                "at://did:web:a%3A1/com.example.note/%",
            ),
            (Format::AtUri, "at://did:web:localhost%3A2583", "at://%/com.example.note"),
            (
                Format::AtUri,
                "at://did:plc:a/com.example.note/a",
                "at://did:plc:a/space/com.example.group/main/did:plc:b/com.example.note/a",
            ),
            (
                Format::AtUri,
                "at://did:plc:a/com.example.note",
                "at://did:web:localhost%3A2583/space/com.example.group/main/did:plc:b/com.example.note/a",
            ),
            (Format::AtUri, "at://did:plc:a", "at://did:plc:a/space/com.example.group/main"),
            (
                Format::SpaceRef,
                "at://did:plc:a/space/com.example.group/main",
                "at://did:plc:a/com.example.note/a",
            ),
            (
                Format::SpaceRef,
                "at://did:web:localhost%3A2583/space/com.example.group/~",
                "at://did:plc:a/space/com.example.group/main/did:plc:b/com.example.note/a",
            ),
            (
                Format::SpaceRef,
                "at://did:plc:a/space/com.example.group/self",
                "at://alice.test/space/com.example.group/self",
            ),
            (Format::Did, "did:web:localhost%3A2583", "did:web:"),
            (Format::AtIdentifier, "did:web:localhost%3A2583", "did:x"),
            (Format::Datetime, "2024-02-29T00:00:00Z", "2026-02-29T00:00:00Z"),
            (Format::Datetime, "2000-02-29T00:00:00Z", "1900-02-29T00:00:00Z"),
            (Format::Datetime, "2026-04-30T23:59:59.5+02:00", "2026-04-31T23:59:59.5+02:00"),
            (Format::Datetime, "0000-01-01T00:00:00+23:59", "2026-02-30T00:00:00Z"),
            (Format::Datetime, "2016-12-31T23:59:59Z", "2016-12-31T23:59:60Z"),
            (Format::Uri, "file:///home/a", "https://"),
            (Format::Uri, "web+app:a", "a b:c"),
            (Format::Uri, "1_a:b", "2026-01-01T00:00:00Z"),
            // blake3, and raw with an identity hash.
            (Format::Cid, "bafkr4ih6aooghylgixd47tjmyfq6zsdd7phndmfmgb7mtvjbfqn6omhyxi", "bafkr4ih6aooghylg"),
            (
                Format::Cid,
                "zdj7WWeQ43G6JJvLWQWZpyHuAMq6uYWRjkBXFad11vE2LHhQ7",
                "QmbWqxBEKC3P8tqsKc98xmWNzrzDtRLMiMPL8wBuTGsMnR",
            ),
        ] {
            assert!(format.accepts(valid), "{format:?} {valid}");
            assert!(!format.accepts(invalid), "{format:?} {invalid}");
        }
    }
}
