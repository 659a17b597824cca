//! The columns of statements that return records, for either database.

use std::sync::LazyLock;

use crate::store::partitions::Tables;

/// Largest size of a record that is returned with its row, in bytes. A page and the row after it stay within
/// [`PAGE_BYTES`](crate::store::records::PAGE_BYTES).
pub(in crate::store) const INLINE_BYTES: usize = 10_240;

/// The columns that a statement returns of each record. A record larger than [`INLINE_BYTES`] is NULL, unless the columns are whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::store) enum Columns {
    /// The columns of a row. SQLite returns all rows as one text (`records::packed`).
    Packed,
    /// The same without the CID, whose text SQLite takes a fifth of the statement's time to make.
    PackedWithoutCid,
    /// The columns of a row.
    Row,
    /// The columns of a row, before those that only the admin API shows ([`full`]).
    Full,
    /// The columns of a row with a record of any size.
    Whole,
}

/// The text of a record on PostgreSQL, whatever its size.
pub(in crate::store) const WHOLE_TEXT: &str = "coalesce(r.record_text, r.record::text)";

/// The columns that follow those of a row for the admin API.
pub(in crate::store) fn full(Tables { invalid_records, .. }: &Tables) -> String {
    format!(
        "r.cid_verified, r.updated_at, (SELECT i.reason FROM {invalid_records} i WHERE i.record_id = r.id)"
    )
}

impl Columns {
    pub(super) fn is_packed(self) -> bool {
        matches!(self, Self::Packed | Self::PackedWithoutCid)
    }
}

/// The texts of all [`Columns`], in their order. `packed`: those with and without a CID, if the database packs rows.
fn texts(packed: Option<[String; 2]>, row: String, whole: String) -> [String; 5] {
    let [packed, without_cid] = packed.unwrap_or_else(|| [row.clone(), row.clone()]);
    [packed, without_cid, row.clone(), row, whole]
}

/// SQLite knows the size of a text without reading it.
pub(super) fn sqlite(columns: Columns) -> &'static str {
    static TEXTS: LazyLock<[String; 5]> = LazyLock::new(|| {
        let (start, size) = ("r.id, d.did, r.rkey, r.indexed_at", "octet_length(r.record)");
        let inline = format!("CASE WHEN {size} <= {INLINE_BYTES} THEN r.record");
        let packed = |cid: &str| {
            format!(
                "r.indexed_at, r.id, r.id || ' ' || r.indexed_at || ' ' || d.did || ' ' || r.rkey \
                     || {cid} || {size} || ' ' || {inline} ELSE '' END AS p"
            )
        };
        texts(
            Some([packed("' ' || hex(r.cid) || ' '"), packed("'  '")]),
            format!("{start}, {inline} END, {size}, r.cid"),
            format!("{start}, r.record, {size}, r.cid"),
        )
    });
    &TEXTS[columns as usize]
}

/// PostgreSQL knows the compressed size of a record without a text (ADR 84), which already excludes most large records; the
/// text of the others is produced once (`OFFSET 0`) and measured.
pub(super) fn postgres(columns: Columns) -> &'static str {
    static TEXTS: LazyLock<[String; 5]> = LazyLock::new(|| {
        let start = "r.id, r.did_id, r.rkey, r.indexed_at";
        texts(
            None,
            format!(
                "{start}, CASE WHEN octet_length(r.record_text) <= {INLINE_BYTES} THEN r.record_text \
                 WHEN r.record_text IS NULL AND pg_column_size(r.record) <= {INLINE_BYTES} \
                 THEN (SELECT CASE WHEN octet_length(t) <= {INLINE_BYTES} THEN t END \
                     FROM (SELECT r.record::text AS t OFFSET 0) x) END, \
                 coalesce(octet_length(r.record_text), pg_column_size(r.record))::bigint, r.cid"
            ),
            format!("{start}, {WHOLE_TEXT}, pg_column_size(r.record)::bigint, r.cid"),
        )
    });
    &TEXTS[columns as usize]
}
