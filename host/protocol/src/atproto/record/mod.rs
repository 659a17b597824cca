//! Inspects the JSON text of a record in one pass: checks that it is a record, computes its CID, and collects its
//! references to other records.

pub(super) mod cbor;
mod encode;
mod member;
mod refs;
mod special;
#[cfg(test)]
mod tests;

pub(super) use self::encode::is_integer;
pub use self::refs::{MAX_REF_BYTES, MAX_REFS, Ref};
use bytes::Bytes;
use shrike::cbor::Codec;
use shrike::cbor::json::drisl_to_json_into;

use super::Cid;

/// Larger records are rejected. PDSs accept none of this size.
pub const MAX_RECORD_BYTES: usize = 1 << 20;

/// Maximum depth of nested objects and arrays; the record itself is level 1. Published lexicons need about ten. The
/// limit protects every later recursive walk over a record from a stack overflow.
pub const MAX_DEPTH: usize = 64;

/// The result of [`inspect`].
#[derive(Debug, PartialEq, Eq)]
pub struct Inspection {
    /// CID of the record's canonical DAG-CBOR, or why it has none.
    pub cid: Result<Cid, Unencodable>,
    /// Every string value that begins with `at://` (indexing.md §3) or is a DID, sorted, each target once.
    pub refs: Vec<Ref>,
    /// The text that a repo returns for the record, if it has values that are written in another way there: an integer
    /// written as `1.0`, `1e3` or `-0`, padded base64, a CID in another base. The CID is the same.
    pub canonical: Option<Bytes>,
}

/// Error for a record that can't be expressed in the data model, and so has no CID. Such a record is stored without a
/// CID check (indexing.md §2).
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq, Hash)]
pub enum Unencodable {
    #[error("a number is not a 64-bit integer")]
    Number,
    #[error("a $link is not a CID, or its object has other keys")]
    Link,
    #[error("a $bytes is not base64, or its object has other keys")]
    Bytes,
    #[error("a $type is not a non-empty string")]
    Type,
    #[error("a blob lacks its ref, mimeType or size, or has one of the wrong type")]
    Blob,
}

/// Error for a text that is not a record at all. Such a text is not stored.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq, Hash)]
pub enum InvalidRecord {
    #[error("the record is larger than 1 MiB")]
    TooLarge,
    #[error("the record nests deeper than 64 levels")]
    TooDeep,
    #[error("the record is not an object")]
    NotObject,
    #[error("an object in the record has a duplicate key")]
    DuplicateKey,
    /// Scripts, sorts and most JSON libraries can't read it.
    #[error("a number in the record is out of range (at most 1.8e308)")]
    NumberOutOfRange,
    #[error("the record is not JSON")]
    Malformed,
}

/// Reads the JSON text of a record.
///
/// # Errors
/// When the text is not one JSON object, or is too large or too deep.
pub fn inspect(json: &[u8]) -> Result<Inspection, InvalidRecord> {
    inspect_encoded(json).map(|(inspection, _)| inspection)
}

/// Like [`inspect`], with the canonical DAG-CBOR of the record; meaningless if it has no CID.
///
/// # Errors
/// As [`inspect`].
pub fn inspect_encoded(json: &[u8]) -> Result<(Inspection, Vec<u8>), InvalidRecord> {
    if json.len() > MAX_RECORD_BYTES {
        return Err(InvalidRecord::TooLarge);
    }
    let encoded = encode::encode(json)?;
    let refs = encoded.refs.into_sorted();
    let cid = match encoded.unencodable {
        None => Ok(Cid::compute(Codec::Drisl, &encoded.cbor)),
        Some(why) => Err(why),
    };
    let canonical = (cid.is_ok() && !encoded.is_canonical).then(|| text_of(&encoded.cbor)).flatten();
    Ok((Inspection { cid, refs, canonical }, encoded.cbor))
}

/// The canonical DAG-CBOR of a record's JSON text. The outer error is what [`inspect`] returns for the same text.
///
/// # Errors
/// See [`InvalidRecord`] and [`Unencodable`].
pub fn to_cbor(json: &[u8]) -> Result<Result<Vec<u8>, Unencodable>, InvalidRecord> {
    if json.len() > MAX_RECORD_BYTES {
        return Err(InvalidRecord::TooLarge);
    }
    let encoded = encode::encode(json)?;
    Ok(encoded.unencodable.map_or(Ok(encoded.cbor), Err))
}

/// The JSON text of canonical DAG-CBOR.
fn text_of(cbor: &[u8]) -> Option<Bytes> {
    let mut text = Vec::new();
    drisl_to_json_into(cbor, &mut text).ok()?;
    Some(text.into())
}
