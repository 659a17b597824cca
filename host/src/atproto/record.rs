//! What the index wants to know about a record, found in one pass over its JSON text.

use super::Cid;

/// Larger records are refused: repositories accept none.
pub const MAX_RECORD_BYTES: usize = 1 << 20;

/// What one pass found out.
#[derive(Debug, PartialEq, Eq)]
pub struct Inspected {
    /// CID of the record's canonical DAG-CBOR, or why it has none.
    pub cid: Result<Cid, Unencodable>,
    /// Every string value that begins with `at://`, without duplicates (indexing.md §3).
    pub refs: Vec<String>,
}

/// Why a record has no DAG-CBOR form, and so no CID. Such a record is stored unchecked.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("{0}")]
pub struct Unencodable(pub &'static str);

/// Why a text is not a record at all. It is dropped.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("{0}")]
pub struct InvalidRecord(pub &'static str);

/// Reads the JSON text of a record.
///
/// # Errors
/// When it is not a JSON object, too large or too deep.
pub fn inspect(_json: &[u8]) -> Result<Inspected, InvalidRecord> {
    todo!()
}
