//! Stores labels of labelers on records and accounts, and reads them together with the self-labels of records.

use std::cmp::Reverse;
use std::collections::HashMap;

use serde_json::{Value, json};

use crate::atproto::{Cid, RecordUri};
use crate::clock::Timestamp;

use super::{Db, StoreError, on};

/// A label that a labeler issued. A newer label with the same subject, version and value replaces it
/// (`docs/adr/0092`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// A DID, or the AT URI of a record.
    pub uri: String,
    /// The labeler's DID.
    pub src: String,
    pub val: String,
    /// The version of the record that the label applies to, if it is limited to one.
    pub cid: Option<String>,
    /// Whether it negates an earlier label.
    pub neg: bool,
    pub cts: Timestamp,
    /// When the label expires; `None` never.
    pub exp: Option<Timestamp>,
}

/// A label that is in effect: neither negated nor expired.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActiveLabel {
    pub src: String,
    pub val: String,
    /// `None` for a self-label.
    pub cts: Option<Timestamp>,
}

/// How far a label's `cts` may be ahead of its receipt, in seconds: clocks are a little off. A `cts` that is further ahead is
/// wrong, and says nothing about the order.
const MAX_AHEAD_SECONDS: i64 = 600;

/// Stands between value and version in the column `val` of a label for one version of a record, so that the label has a
/// key of its own. No value contains control characters.
pub(super) const VERSION_MARK: char = '\u{1f}';

/// Ends a statement that stores labels. The later `cts` wins, of equal ones the label that comes later in the stream. A label
/// that was dated ahead gives way to any later one of the stream.
macro_rules! unless_older {
    () => {
        " ON CONFLICT (uri, src, val) DO UPDATE SET cid = excluded.cid, neg = excluded.neg, cts = excluded.cts, \
          exp = excluded.exp, dated_ahead = excluded.dated_ahead \
          WHERE excluded.cts >= labels.cts OR labels.dated_ahead"
    };
}
pub(super) const PUT_SQLITE: &str = concat!(
    "INSERT INTO labels (uri, src, val, cid, neg, cts, exp, dated_ahead) \
     SELECT value ->> 'uri', value ->> 'src', value ->> 'val', value ->> 'cid', value ->> 'neg', value ->> 'cts', \
         value ->> 'exp', value ->> 'dated_ahead' FROM json_each($1) WHERE true",
    unless_older!()
);
pub(super) const PUT_POSTGRES: &str = concat!(
    "INSERT INTO labels (uri, src, val, cid, neg, cts, exp, dated_ahead) \
     SELECT uri, src, val, cid, neg, cts, exp, dated_ahead FROM jsonb_to_recordset($1::jsonb) AS l \
         (uri text, src text, val text, cid text, neg boolean, cts bigint, exp bigint, dated_ahead boolean)",
    unless_older!()
);

/// What remains to be stored of the labels of one key: at most two, in this order.
#[derive(Default)]
struct Last<'a> {
    dated_ahead: Option<&'a Label>,
    /// The one that applies of those that came after it.
    dated_well: Option<&'a Label>,
}

/// The rows of labels that were received at a time, as JSON to bind: for the first statement and for the second. One can't
/// change the same row twice on PostgreSQL.
pub(super) fn rows(labels: &[Label], received: Timestamp) -> [String; 2] {
    let mut by_key: HashMap<(&str, &str, &str, Option<&str>), Last<'_>> = HashMap::new();
    for label in labels {
        let last = by_key.entry((&label.uri, &label.src, &label.val, label.cid.as_deref())).or_default();
        if is_dated_ahead(label, received) {
            *last = Last { dated_ahead: Some(label), dated_well: None };
        } else if last.dated_well.is_none_or(|kept| label.cts.min(received) >= kept.cts.min(received)) {
            last.dated_well = Some(label);
        }
    }
    let rows = |labels: Vec<&Label>| {
        Value::Array(labels.into_iter().map(|label| row(label, received)).collect()).to_string()
    };
    [
        rows(by_key.values().filter_map(|last| last.dated_ahead).collect()),
        rows(by_key.values().filter_map(|last| last.dated_well).collect()),
    ]
}

fn is_dated_ahead(label: &Label, received: Timestamp) -> bool {
    label.cts > received.plus_seconds(MAX_AHEAD_SECONDS)
}

fn row(l: &Label, received: Timestamp) -> Value {
    let val = l.cid.as_ref().map_or_else(|| l.val.clone(), |cid| format!("{}{VERSION_MARK}{cid}", l.val));
    let exp = l.exp.map(|exp| exp.0);
    // Nothing is created after its receipt.
    let cts = l.cts.min(received).0;
    let dated_ahead = is_dated_ahead(l, received);
    json!({ "uri": l.uri, "src": l.src, "val": val, "cid": l.cid, "neg": l.neg, "cts": cts, "exp": exp,
        "dated_ahead": dated_ahead })
}

/// The labels for one version, up to $1, that a server before 0054 has stored: without the version in `val`.
macro_rules! of_before {
    ($has_no_mark:literal) => {
        concat!(
            "(uri, src, val) IN (SELECT uri, src, val FROM labels WHERE cid IS NOT NULL AND ",
            $has_no_mark,
            " ORDER BY uri, src, val LIMIT $1)"
        )
    };
}

/// Gives up to `limit` labels for one version that a server before 0054 has stored their own key. Returns how many.
pub async fn move_versions(db: &Db, limit: u32) -> Result<u64, StoreError> {
    let limit = i64::from(limit);
    match db {
        Db::Sqlite(db) => {
            let copy = concat!(
                "INSERT INTO labels (uri, src, val, cid, neg, cts, exp, dated_ahead) \
                 SELECT uri, src, val || char(31) || cid, cid, neg, cts, exp, dated_ahead FROM labels WHERE ",
                of_before!("instr(val, char(31)) = 0"),
                unless_older!()
            );
            let delete = concat!("DELETE FROM labels WHERE ", of_before!("instr(val, char(31)) = 0"));
            let mut tx = db.writer.begin().await?;
            sqlx::query(copy).bind(limit).execute(&mut *tx).await?;
            let gone = sqlx::query(delete).bind(limit).execute(&mut *tx).await?.rows_affected();
            tx.commit().await?;
            Ok(gone)
        }
        Db::Postgres(db) => {
            let sql = concat!(
                "WITH gone AS (DELETE FROM labels WHERE ",
                of_before!("strpos(val, chr(31)) = 0"),
                " RETURNING uri, src, val, cid, neg, cts, exp, dated_ahead), \
                 copied AS (INSERT INTO labels (uri, src, val, cid, neg, cts, exp, dated_ahead) \
                     SELECT uri, src, val || chr(31) || cid, cid, neg, cts, exp, dated_ahead FROM gone WHERE true",
                unless_older!(),
                ") SELECT count(*) FROM gone"
            );
            let gone: i64 = sqlx::query_scalar(sql).bind(limit).fetch_one(db.writer()).await?;
            Ok(gone.unsigned_abs())
        }
    }
}

/// Removes up to `limit` labels of a labeler. Returns how many.
pub async fn delete_of(db: &Db, src: &str, limit: u32) -> Result<u64, StoreError> {
    let sql = "DELETE FROM labels WHERE (uri, src, val) IN \
               (SELECT uri, src, val FROM labels WHERE src = $1 LIMIT $2)";
    Ok(on!(db, writer, |pool| {
        sqlx::query(sql).bind(src).bind(i64::from(limit)).execute(pool).await?.rows_affected()
    }))
}

/// Removes up to `limit` labels that expired before `before`. Returns how many.
pub async fn delete_expired(db: &Db, before: Timestamp, limit: u32) -> Result<u64, StoreError> {
    let sql = "DELETE FROM labels WHERE (uri, src, val) IN \
               (SELECT uri, src, val FROM labels WHERE exp < $1 LIMIT $2)";
    Ok(on!(db, writer, |pool| {
        sqlx::query(sql).bind(before).bind(i64::from(limit)).execute(pool).await?.rows_affected()
    }))
}

/// A label that is limited to one version of a record comes with the CID of the record in the index. Labels of a labeler
/// that is being deleted are left out.
///
/// Self-labels longer than 16 KiB are ignored: the lexicon allows ten values of 128 bytes, and the labels of a page of
/// subjects must not take megabytes.
///
/// $1: the subjects as `[uri, did, collection, rkey]`, with nulls for those that are no records. $2: the current time.
const ACTIVE_SQLITE: &str = "SELECT l.uri, l.src, l.val, l.cts, l.cid, CASE WHEN l.cid IS NOT NULL THEN ( \
            SELECT r.cid FROM dids d CROSS JOIN collections c CROSS JOIN records r WHERE d.did = s.value ->> 1 \
            AND c.nsid = s.value ->> 2 AND r.collection_id = c.id AND r.did_id = d.id AND r.rkey = s.value ->> 3) END, \
            NULL \
        FROM json_each($1) s CROSS JOIN labels l ON l.uri = s.value ->> 0 \
        WHERE l.neg = 0 AND (l.exp IS NULL OR l.exp > $2) \
            AND NOT EXISTS (SELECT 1 FROM labelers b WHERE b.did = l.src AND b.status = 'deleting') \
    UNION ALL SELECT s.value ->> 0, d.did, NULL, NULL, NULL, NULL, json_extract(r.record, '$.labels.values') \
        FROM json_each($1) s CROSS JOIN dids d ON d.did = s.value ->> 1 AND d.status = 0 \
        CROSS JOIN collections c ON c.nsid = s.value ->> 2 \
        CROSS JOIN records r ON r.collection_id = c.id AND r.did_id = d.id AND r.rkey = s.value ->> 3 \
        WHERE json_type(r.record, '$.labels.values') = 'array' \
            AND octet_length(json_extract(r.record, '$.labels.values')) <= 16384";
const ACTIVE_POSTGRES: &str = "SELECT l.uri, l.src, l.val, l.cts, l.cid, CASE WHEN l.cid IS NOT NULL THEN ( \
            SELECT r.cid FROM dids d, collections c, records r WHERE d.did = s ->> 1 AND c.nsid = s ->> 2 \
            AND r.collection_id = c.id AND r.did_id = d.id AND r.rkey = s ->> 3) END, NULL::text \
        FROM jsonb_array_elements($1::jsonb) s JOIN labels l ON l.uri = s ->> 0 \
        WHERE NOT l.neg AND (l.exp IS NULL OR l.exp > $2) \
            AND NOT EXISTS (SELECT 1 FROM labelers b WHERE b.did = l.src AND b.status = 'deleting') \
    UNION ALL SELECT s ->> 0, d.did, NULL, NULL, NULL, NULL, (r.record #> '{labels,values}')::text \
        FROM jsonb_array_elements($1::jsonb) s JOIN dids d ON d.did = s ->> 1 AND d.status = 0 \
        JOIN collections c ON c.nsid = s ->> 2 \
        JOIN records r ON r.collection_id = c.id AND r.did_id = d.id AND r.rkey = s ->> 3 \
        WHERE jsonb_typeof(r.record #> '{labels,values}') = 'array' \
            AND octet_length((r.record #> '{labels,values}')::text) <= 16384";

#[derive(sqlx::FromRow)]
struct Row(
    String,
    String,
    Option<String>,
    Option<Timestamp>,
    /// The version that the label is limited to, and that of the index.
    Option<String>,
    Option<Vec<u8>>,
    /// The self-labels of a record.
    Option<String>,
);

/// The labels in effect at `now`, by subject: those of labelers, then the self-labels of visible records, both sorted by
/// source and value. A label for a record and the same one for its current version appear once, with the later `cts`.
/// Subjects without labels are left out. Takes one query.
pub async fn active(
    db: &Db,
    subjects: &[String],
    now: Timestamp,
) -> Result<HashMap<String, Vec<ActiveLabel>>, StoreError> {
    let subject = |uri: &String| match RecordUri::parse(uri) {
        Ok(r) => json!([uri, r.did.as_str(), r.collection.as_str(), r.rkey.as_str()]),
        Err(_) => json!([uri, null, null, null]),
    };
    let subjects = Value::Array(subjects.iter().map(subject).collect()).to_string();
    let rows: Vec<Row> = match db {
        Db::Sqlite(db) => {
            sqlx::query_as(ACTIVE_SQLITE).bind(subjects).bind(now).fetch_all(&db.reader).await?
        }
        Db::Postgres(db) => {
            sqlx::query_as(ACTIVE_POSTGRES).bind(subjects).bind(now).fetch_all(db.reader()).await?
        }
    };
    let mut found: HashMap<String, Vec<ActiveLabel>> = HashMap::new();
    for Row(uri, src, val, cts, cid, record_cid, self_labels) in rows {
        if let Some(val) = val {
            if cid.is_none_or(|cid| is_of_version(&cid, record_cid.as_deref())) {
                let val = val.split(VERSION_MARK).next().unwrap_or_default().to_owned();
                found.entry(uri).or_default().push(ActiveLabel { src, val, cts });
            }
        } else if let Some(self_labels) = self_labels {
            found.entry(uri).or_default().extend(
                self_label_values(&self_labels).into_iter().map(|val| ActiveLabel {
                    src: src.clone(),
                    val,
                    cts: None,
                }),
            );
        }
    }
    for labels in found.values_mut() {
        labels.sort_unstable_by(|a, b| {
            let (of_a, of_b) = ((a.cts.is_none(), &a.src, &a.val), (b.cts.is_none(), &b.src, &b.val));
            (of_a, Reverse(a.cts)).cmp(&(of_b, Reverse(b.cts)))
        });
        labels.dedup_by(|next, kept| next.cts.is_some() && (&next.src, &next.val) == (&kept.src, &kept.val));
    }
    Ok(found)
}

/// Whether the record in the index is the version that a label is limited to.
fn is_of_version(cid: &str, record_cid: Option<&[u8]>) -> bool {
    let Some(record_cid) = record_cid else { return false };
    cid.parse::<Cid>().is_ok_and(|cid| cid.to_bytes() == record_cid)
}

/// The values in a record's `labels.values`, `[{"val": …}]`; entries of another form are ignored.
fn self_label_values(json: &str) -> Vec<String> {
    let Ok(Value::Array(entries)) = serde_json::from_str(json) else { return Vec::new() };
    entries.iter().filter_map(|entry| entry.get("val")?.as_str().map(str::to_owned)).collect()
}
