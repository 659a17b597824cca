//! Defines the views of the index that scripts' SQL reads on SQLite. On PostgreSQL migrations create the same views
//! (`0008_script_sql.sql`, `0036_invalid_records.sql`, `0054_label_versions.sql`, `0060_account_identities.sql`); a test compares them.
//!
//! Hidden accounts are left out. Times are RFC 3339 text; `indexed_us` is `indexed_at` in microseconds and has an
//! index. CIDs are text. `valid` is a truth value: 0 or 1 on SQLite. A record above the maximum size of a value is NULL, so that one large record on the network
//! doesn't fail every statement that reads it.

use super::super::select::{Dialect, SqliteDialect};
use super::{LEAN_RECORDS, MAX_VALUE_BYTES, OWN_COLUMNS};

/// A time column as text.
macro_rules! time {
    ($column:literal) => {
        concat!(
            "(strftime('%Y-%m-%dT%H:%M:%S', ",
            $column,
            " / 1000000, 'unixepoch') || printf('.%06dZ', ",
            $column,
            " % 1000000))"
        )
    };
}

/// The statements that create the views on a connection where the index is attached as `belvedere`.
pub(super) fn sqlite() -> Vec<String> {
    let records = |name: &str, cid: &str| {
        format!(
            "CREATE TEMP VIEW {name} AS SELECT 'at://' || d.did || '/' || c.nsid || '/' || r.rkey AS uri, \
                 d.did AS did, c.nsid AS collection, r.rkey AS rkey, {cid}{} AS indexed_at, \
                 r.indexed_at AS indexed_us, \
                 CASE WHEN octet_length(r.record) <= {MAX_VALUE_BYTES} THEN r.record END AS record, \
                 NOT EXISTS (SELECT 1 FROM belvedere.invalid_records i WHERE i.record_id = r.id) AS valid \
             FROM belvedere.collections c JOIN belvedere.records r ON r.collection_id = c.id \
                 JOIN belvedere.dids d ON d.id = r.did_id AND d.status = 0",
            time!("r.indexed_at"),
        )
    };
    let cid = format!("{} AS cid, ", SqliteDialect::cid_text("r.cid"));
    let mut views = vec![records("records", &cid), records(LEAN_RECORDS, "")];
    views.extend(OTHER_VIEWS.iter().map(|view| (*view).to_owned()));
    views.push(own_columns());
    views
}

/// The view of the columns of the own tables, for ourselves: scripts' statements read no schema.
fn own_columns() -> String {
    format!(
        "CREATE TEMP VIEW {OWN_COLUMNS} AS SELECT m.name AS table_name, c.name AS column_name, \
             upper(c.type) IN ('JSON', 'JSONB') AS is_json \
         FROM main.sqlite_schema m, pragma_table_info(m.name, 'main') c WHERE m.type = 'table'"
    )
}

const OTHER_VIEWS: [&str; 4] = [
    "CREATE TEMP VIEW accounts AS SELECT d.did AS did, i.handle AS handle, 'active' AS status, i.pds AS pds \
     FROM belvedere.dids d LEFT JOIN belvedere.account_identities i ON i.did_id = d.id WHERE d.status = 0",
    "CREATE TEMP VIEW record_refs AS SELECT 'at://' || d.did || '/' || c.nsid || '/' || r.rkey AS source_uri, \
         f.target AS target_uri, c.nsid AS collection, f.paths AS paths \
     FROM belvedere.record_refs f JOIN belvedere.records r ON r.id = f.record_id \
         JOIN belvedere.collections c ON c.id = f.collection_id JOIN belvedere.dids d ON d.id = r.did_id AND d.status = 0",
    concat!(
        "CREATE TEMP VIEW labels AS SELECT src, uri, \
             CASE WHEN cid IS NULL OR instr(val, char(31)) = 0 THEN val ELSE substr(val, 1, instr(val, char(31)) - 1) END \
             AS val, cid, ",
        time!("cts"),
        " AS cts, ",
        time!("exp"),
        " AS exp FROM belvedere.labels \
         WHERE neg = 0 AND (exp IS NULL OR exp > CAST(unixepoch('subsec') * 1000000 AS INTEGER))"
    ),
    concat!(
        "CREATE TEMP VIEW lexicons AS SELECT id, revision, lexicon_type, lexicon_json, action, target_collection, \
             source, authority_did, ",
        time!("created_at"),
        " AS created_at, ",
        time!("updated_at"),
        " AS updated_at FROM belvedere.lexicons"
    ),
];
