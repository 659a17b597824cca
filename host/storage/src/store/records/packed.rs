//! Reads the rows of a public list from SQLite, each packed as `id indexed_at did rkey cid length record`. The CID is in hexadecimal, or
//! empty.

use data_encoding::HEXUPPER;

use belvedere_base::clock::Timestamp;
use belvedere_protocol::atproto::{Cid, Nsid};

use super::super::packed::Packed;
use super::{PartialRow, RecordRow, StoreError};

/// The rows of a packed list.
pub(in crate::store) fn unpack(
    text: Option<String>,
    collection: &Nsid,
) -> Result<Vec<PartialRow<RecordRow>>, StoreError> {
    Packed::new(text.unwrap_or_default()).rows(|packed| {
        let id = packed.field()?.parse().ok()?;
        let indexed_at = Timestamp(packed.field()?.parse().ok()?);
        let (did, rkey) = (packed.field()?.to_owned(), packed.field()?.to_owned());
        let cid = match packed.field()? {
            "" => None,
            text => Some(Cid::from_bytes(&HEXUPPER.decode(text.as_bytes()).ok()?).ok()?),
        };
        let (size, record) = packed.record()?;
        let row = RecordRow { id, did, collection: collection.clone(), rkey, indexed_at, cid, record };
        Some(PartialRow { row, size, values: Vec::new() })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unpacks_packed_rows_and_rejects_malformed_text() {
        let note = Nsid::try_from("com.example.note").unwrap();
        let rows = |text: &str| unpack(Some(text.to_owned()), &note);
        let read = rows("7 -5 did:plc:a self  14 {\"a\":\"b \u{e4} c\"}8 9 did:plc:b x  2 {}").unwrap();
        let shown = |rows: &[PartialRow<RecordRow>]| -> Vec<_> {
            rows.iter().map(|f| (f.row.id, f.row.indexed_at.0, f.row.uri(), f.row.record.clone())).collect()
        };
        assert_eq!(
            shown(&read),
            [
                (7, -5, "at://did:plc:a/com.example.note/self".into(), "{\"a\":\"b \u{e4} c\"}".into()),
                (8, 9, "at://did:plc:b/com.example.note/x".into(), "{}".into()),
            ]
        );
        assert!(rows("").unwrap().is_empty());
        let cid: Cid = "bafyreib2rxk3rybk3aobmv5cjuql3bm2twh4jo5uxgf5kpqcsgz7soitae".parse().unwrap();
        let hex = HEXUPPER.encode(&cid.to_bytes());
        assert_eq!(rows(&format!("7 5 a b {hex} 2 {{}}")).unwrap()[0].row.cid, Some(cid));
        assert_eq!(read[0].row.cid, None);
        let large = rows("7 5 a b  10241 8 6 c d  2 {}").unwrap();
        assert_eq!((large[0].size, large[0].row.record.len(), large[1].row.id), (10_241, 0, 8));
        for text in
            ["7", "7 5 a b  3 {}", "7 5 a b  x {}", "7 5 a b  2 {}8", "x 5 a b  2 {}", "7 5 a b 01 2 {}"]
        {
            assert!(rows(text).is_err(), "{text}");
        }
    }
}
