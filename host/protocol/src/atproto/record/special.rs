//! Objects with a key that begins with `$`: links, bytes and blobs.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use shrike::cbor::json::{decode_base64, parse_cid};

use super::Unencodable;
use super::cbor::{MAJOR_BYTES, MAJOR_UNSIGNED, TAG_LINK, head, text_of};
use super::member::Member;

/// The meaning of such an object in the data model.
pub(super) struct Special {
    /// The encoding of a link or of bytes; any other object is a map.
    pub(super) encoded: Option<Vec<u8>>,
    pub(super) wrong: Option<Unencodable>,
    /// Whether a link or bytes are written as a repo writes them: a CID in base32, base64 without padding.
    pub(super) is_canonical: bool,
}

/// Reads the object with these members of `out`.
pub(super) fn read(out: &[u8], members: &[Member]) -> Special {
    let mut special = Special { encoded: None, wrong: None, is_canonical: true };
    for member in members {
        let text = || text_of(member.value(out));
        match member.key(out) {
            b"$link" => match text().and_then(|text| Some((text, parse_cid(text).ok()?))) {
                Some((text, cid)) if members.len() == 1 => {
                    let mut link = Vec::with_capacity(41);
                    link.extend_from_slice(&TAG_LINK);
                    let bytes = cid.to_tag42_bytes();
                    head(&mut link, MAJOR_BYTES, bytes.len() as u64);
                    link.extend_from_slice(&bytes);
                    special.encoded = Some(link);
                    // Only base32 begins with `b`.
                    special.is_canonical = text.starts_with('b') && !text.ends_with('=');
                }
                _ => special.wrong = Some(Unencodable::Link),
            },
            b"$bytes" => match text().and_then(|text| Some((text, decode_base64(text)?))) {
                Some((text, decoded)) if members.len() == 1 => {
                    let mut bytes = Vec::with_capacity(decoded.len() + 5);
                    head(&mut bytes, MAJOR_BYTES, decoded.len() as u64);
                    bytes.extend_from_slice(&decoded);
                    special.encoded = Some(bytes);
                    special.is_canonical = STANDARD_NO_PAD.encode(&decoded) == text;
                }
                _ => special.wrong = Some(Unencodable::Bytes),
            },
            b"$type" => match text() {
                None | Some("") => special.wrong = Some(Unencodable::Type),
                Some("blob") if !is_blob(out, members) => special.wrong = Some(Unencodable::Blob),
                Some(_) => {}
            },
            _ => {}
        }
    }
    special
}

/// Whether an object with `$type: "blob"` has the fields of a blob.
fn is_blob(out: &[u8], members: &[Member]) -> bool {
    let find = |name: &[u8]| members.iter().find(|m| m.key(out) == name).map(|m| m.value(out));
    find(b"ref").is_some_and(|v| v.starts_with(&TAG_LINK))
        && find(b"mimeType").is_some_and(|v| text_of(v).is_some())
        && find(b"size").is_some_and(|v| v[0] & 0xe0 == MAJOR_UNSIGNED)
}
