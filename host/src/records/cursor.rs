//! Opaque page cursors: base64url of where the page ended.

use crate::store::records::Keyset;

use super::sort::SortKeyset;

/// A cursor that no page of ours handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed cursor")]
pub struct InvalidCursor;

pub fn encode(_after: Keyset) -> String {
    todo!()
}

pub fn decode(_text: &str) -> Result<Keyset, InvalidCursor> {
    todo!()
}

pub fn encode_sorted(_after: &SortKeyset) -> String {
    todo!()
}

pub fn decode_sorted(_text: &str) -> Result<SortKeyset, InvalidCursor> {
    todo!()
}
