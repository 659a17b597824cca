//! What the index wants to know about a record, found in one pass over its JSON text: that it is one, its CID, and
//! which records it refers to.

mod cbor;
mod encode;
#[cfg(test)]
mod tests;

use shrike::cbor::Codec;

use super::Cid;

/// Larger records are refused: repositories accept none.
pub const MAX_RECORD_BYTES: usize = 1 << 20;

/// How deep objects and arrays may nest, the record itself being the first level. Published lexicons need about ten; the
/// bound keeps everything that later walks a record by recursion safe.
pub const MAX_DEPTH: usize = 64;

/// Longer `at://` texts are not kept as references: no record can be addressed by more (a DID of 1 KiB, a collection of
/// 317 and a key of 512 bytes), and an index entry of PostgreSQL can't be longer than about 2.7 KB.
pub const MAX_REF_BYTES: usize = 2048;

/// More distinct references than these are not kept, so that one record can't become a million rows.
pub const MAX_REFS: usize = 10_000;

/// What one pass found out.
#[derive(Debug, PartialEq, Eq)]
pub struct Inspected {
    /// CID of the record's canonical DAG-CBOR, or why it has none.
    pub cid: Result<Cid, Unencodable>,
    /// Every string value that begins with `at://`, sorted, without duplicates (indexing.md §3).
    pub refs: Vec<String>,
}

/// Why a record has no place in the data model, and so no CID. Such a record is stored unchecked (indexing.md §2).
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq, Hash)]
pub enum Unencodable {
    #[error("a number is not a 64-bit integer")]
    Number,
    #[error("a $link is not a CID, or not alone in its object")]
    Link,
    #[error("a $bytes is not base64, or not alone in its object")]
    Bytes,
    #[error("a $type is not a non-empty string")]
    Type,
    #[error("a blob lacks its ref, mimeType or size, or has one of the wrong type")]
    Blob,
}

/// Why a text is not a record at all. It is dropped.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq, Hash)]
pub enum InvalidRecord {
    #[error("the record is larger than 1 MiB")]
    TooLarge,
    #[error("the record nests deeper than 64 levels")]
    TooDeep,
    #[error("the record is not an object")]
    NotObject,
    #[error("an object holds a key twice")]
    DuplicateKey,
    #[error("the record is not JSON")]
    Malformed,
}

/// Reads the JSON text of a record.
///
/// # Errors
/// When the text is not one JSON object, or is too large or too deep.
pub fn inspect(json: &[u8]) -> Result<Inspected, InvalidRecord> {
    if json.len() > MAX_RECORD_BYTES {
        return Err(InvalidRecord::TooLarge);
    }
    let encoded = encode::encode(json)?;
    let mut refs = encoded.refs;
    if refs.len() > 1 {
        refs.sort_unstable();
        refs.dedup();
        refs.truncate(MAX_REFS);
    }
    let cid = match encoded.unencodable {
        None => Ok(Cid::compute(Codec::Drisl, &encoded.cbor)),
        Some(why) => Err(why),
    };
    Ok(Inspected { cid, refs })
}

/// The canonical DAG-CBOR of a record's JSON text, in the outer error what [`inspect`] refuses.
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
