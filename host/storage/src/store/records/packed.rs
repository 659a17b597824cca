//! Reads a list from SQLite as one row.
//!
//! sqlx passes each row as a message from the connection's thread and copies each column to the heap: for a list of
//! twenty rows that costs more than finding them. So the statement concatenates the rows into one text (`Columns::Packed`), each as
//! `id indexed_at did rkey length record`, and the records of a page are slices of it. DIDs and record keys contain no
//! blanks; the length is in bytes. A record longer than [`INLINE_BYTES`] is left out: the next row follows its length.

use bytes::Bytes;

use crate::query::PageSize;
use belvedere_base::clock::Timestamp;
use belvedere_protocol::atproto::Nsid;

use super::super::select::INLINE_BYTES;
use super::{PartialRow, RecordRow, StoreError};

/// Splits the text into rows; SQLite concatenates no rows to NULL.
pub(in crate::store) fn unpack(
    text: Option<String>,
    collection: &Nsid,
    limit: u32,
) -> Result<Vec<PartialRow<RecordRow>>, StoreError> {
    let rows = text.map_or_else(|| Some(Vec::new()), |text| slices(text, collection, limit));
    rows.ok_or_else(|| StoreError::Corrupt("a packed list of records is malformed".into()))
}

fn slices(text: String, collection: &Nsid, limit: u32) -> Option<Vec<PartialRow<RecordRow>>> {
    let all = Bytes::from(text);
    let mut rows = Vec::with_capacity(PageSize::rows_read(limit) as usize);
    let mut at = 0;
    while at < all.len() {
        let mut field = || {
            let end = at + memchr::memchr(b' ', &all[at..])?;
            let field = std::str::from_utf8(&all[at..end]).ok()?;
            at = end + 1;
            Some(field)
        };
        let id = field()?.parse().ok()?;
        let indexed_at = Timestamp(field()?.parse().ok()?);
        let (did, rkey) = (field()?.to_owned(), field()?.to_owned());
        let length: usize = field()?.parse().ok()?;
        let here = if length <= INLINE_BYTES { length } else { 0 };
        let end = at.checked_add(here).filter(|end| *end <= all.len())?;
        let row = RecordRow {
            id,
            did,
            collection: collection.clone(),
            rkey,
            indexed_at,
            record: all.slice(at..end),
        };
        rows.push(PartialRow { row, size: i64::try_from(length).ok()?, value: None });
        at = end;
    }
    Some(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unpacks_packed_rows_and_rejects_malformed_text() {
        let note = Nsid::try_from("com.example.note").unwrap();
        let unpack = |text: &str| slices(text.to_owned(), &note, 10);
        let rows = unpack("7 -5 did:plc:a self 14 {\"a\":\"b \u{e4} c\"}8 9 did:plc:b x 2 {}").unwrap();
        let shown = |rows: &[PartialRow<RecordRow>]| -> Vec<_> {
            rows.iter().map(|f| (f.row.id, f.row.indexed_at.0, f.row.uri(), f.row.record.clone())).collect()
        };
        assert_eq!(
            shown(&rows),
            [
                (7, -5, "at://did:plc:a/com.example.note/self".into(), "{\"a\":\"b \u{e4} c\"}".into()),
                (8, 9, "at://did:plc:b/com.example.note/x".into(), "{}".into()),
            ]
        );
        assert!(unpack("").unwrap().is_empty());
        let large = unpack("7 5 a b 10241 8 6 c d 2 {}").unwrap();
        assert_eq!((large[0].size, large[0].row.record.len(), large[1].row.id), (10_241, 0, 8));
        for text in ["7", "7 5 a b 3 {}", "7 5 a b x {}", "7 5 a b 2 {}8", "x 5 a b 2 {}"] {
            assert!(unpack(text).is_none(), "{text}");
        }
    }
}
