//! The columns of statements that return records, for either database.

use super::slice::INLINE_BYTES;

/// The text of a record on PostgreSQL, whatever its size.
macro_rules! whole_text {
    () => {
        "coalesce(r.record_text, r.record::text)"
    };
}
pub(in crate::store) use whole_text;

/// A record, NULL if it is larger than `INLINE_BYTES`, and its size.
macro_rules! record_columns {
    (sqlite) => {
        concat!(
            "CASE WHEN octet_length(r.record) <= ",
            $crate::store::records::inline_bytes!(),
            " THEN r.record END AS record, octet_length(r.record) AS size"
        )
    };
    (postgres) => {
        concat!(
            "CASE WHEN octet_length(r.record_text) <= ",
            $crate::store::records::inline_bytes!(),
            " THEN r.record_text WHEN r.record_text IS NULL AND pg_column_size(r.record) <= ",
            $crate::store::records::inline_bytes!(),
            " THEN (SELECT CASE WHEN octet_length(t) <= ",
            $crate::store::records::inline_bytes!(),
            " THEN t END FROM (SELECT r.record::text AS t OFFSET 0) x) END, \
             coalesce(octet_length(r.record_text), pg_column_size(r.record))::bigint"
        )
    };
}
pub(in crate::store) use record_columns;

/// The columns of a row. A record larger than `INLINE_BYTES` is NULL unless `whole` is given; `full` adds the columns
/// that the admin API shows.
///
/// Both databases know the size of a text without reading it. Of a record without one (ADR 84) PostgreSQL knows the
/// compressed size, which already excludes most large records; the text of the others is produced once (`OFFSET 0`) and
/// measured.
macro_rules! columns {
    (sqlite) => {
        concat!("r.id, d.did, r.rkey, r.indexed_at, ", $crate::store::records::record_columns!(sqlite))
    };
    (postgres) => {
        concat!("r.id, r.did_id, r.rkey, r.indexed_at, ", $crate::store::records::record_columns!(postgres))
    };
    (sqlite whole) => {
        "r.id, d.did, r.rkey, r.indexed_at, r.record, octet_length(r.record)"
    };
    (postgres whole) => {
        concat!(
            "r.id, r.did_id, r.rkey, r.indexed_at, ",
            $crate::store::records::whole_text!(),
            ", pg_column_size(r.record)::bigint"
        )
    };
    (full) => {
        ", r.cid, r.cid_verified, r.updated_at, (SELECT i.reason FROM invalid_records i WHERE i.record_id = r.id)"
    };
    ($dialect:ident full) => {
        concat!(columns!($dialect), columns!(full))
    };
    ($dialect:ident whole full) => {
        concat!(columns!($dialect whole), columns!(full))
    };
}
pub(in crate::store) use columns;
const _: () = assert!(INLINE_BYTES == 10_240, "the statements above and in `packed` contain this number");
