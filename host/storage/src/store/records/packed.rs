//! Reads a list from SQLite as one row.
//!
//! sqlx passes each row as a message from the connection's thread and copies each column to the heap: for a list of
//! twenty rows that costs more than finding them. So the statement concatenates the rows into one text, each as
//! `id indexed_at did rkey length record`, and the records of a page are slices of it. DIDs and record keys contain no
//! blanks; the length is in bytes. A record longer than [`INLINE_BYTES`] is left out: the next row follows its length.

use bytes::Bytes;
use sqlx::SqliteConnection;

use belvedere_base::clock::Timestamp;
use belvedere_protocol::atproto::Nsid;

use super::super::read_pool::ReadPool;
use super::{INLINE_BYTES, ListArgs, PartialRow, RecordRow, StoreError, rows_to_read};

/// The rows of a list that meet the further conditions, each packed as `p`, with the columns they are sorted by.
macro_rules! rows_sql {
    ($($where:literal)*) => {
        concat!(
            "SELECT r.indexed_at, r.id, r.id || ' ' || r.indexed_at || ' ' || d.did || ' ' || r.rkey \
                 || ' ' || octet_length(r.record) || ' ' \
                 || CASE WHEN octet_length(r.record) <= ",
            $crate::store::records::inline_bytes!(),
            " THEN r.record ELSE '' END AS p \
             FROM records r CROSS JOIN dids d WHERE d.id = r.did_id AND d.status = 0 AND r.collection_id = $1",
            $($where),*
        )
    };
}

macro_rules! packed_sql {
    ($($rows:expr),+) => {
        // The rows are concatenated in the order of the inner SELECT: its LIMIT keeps SQLite from flattening it.
        concat!("SELECT group_concat(p, '') FROM (", $($rows),+, " ORDER BY 1 DESC, 2 DESC LIMIT $2)")
    };
}

/// The statements of a first page, and of one after the row with a time and an id.
///
/// Rows of the same time are found apart from earlier ones, because SQLite looks up no pair whose second part is the id
/// that it adds to every index: it would pass over all rows of that time, and a batch of the stream has one time.
macro_rules! pages_sql {
    ($where:literal, $time:literal, $id:literal) => {
        [
            packed_sql!(rows_sql!($where)),
            packed_sql!(
                rows_sql!($where " AND r.indexed_at = " $time " AND r.id < " $id),
                " UNION ALL ",
                rows_sql!($where " AND r.indexed_at < " $time)
            ),
        ]
    };
}

pub(in crate::store) const STATEMENTS: super::Statements = [
    pages_sql!("", "$3", "$4"),
    pages_sql!(" AND r.did_id = (SELECT id FROM dids WHERE did = $3)", "$4", "$5"),
];

pub(super) async fn list(
    pool: &ReadPool<SqliteConnection>,
    collection: i64,
    args: &ListArgs<'_>,
) -> Result<Vec<PartialRow<RecordRow>>, StoreError> {
    let sql = STATEMENTS[usize::from(args.did.is_some())][usize::from(args.after.is_some())];
    let mut query = sqlx::query_scalar(sql).bind(collection).bind(rows_to_read(args.limit));
    if let Some(did) = args.did {
        query = query.bind(did.as_str());
    }
    if let Some(after) = args.after {
        query = query.bind(after.indexed_at).bind(after.id);
    }
    let text: Option<String> = query.fetch_one(pool.reads()).await?;
    unpack(text, args.collection, args.limit)
}

/// A statement that concatenates the rows of `inner` into one text. `inner` must select [`super::columns!`] and have a
/// LIMIT.
pub(in crate::store) fn statement(inner: &str) -> String {
    format!(
        "SELECT group_concat(id || ' ' || indexed_at || ' ' || did || ' ' || rkey || ' ' || size || ' ' \
         || coalesce(record, ''), '') FROM ({inner})"
    )
}

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
    let mut rows = Vec::with_capacity(limit.min(128) as usize);
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
        rows.push(PartialRow { row, size: i64::try_from(length).ok()? });
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
