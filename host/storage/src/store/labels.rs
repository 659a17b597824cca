//! Stores labels of labelers on records and accounts, and reads them together with the self-labels of records.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::sync::LazyLock;

use serde_json::{Value, json};

use belvedere_base::clock::Timestamp;
use belvedere_protocol::atproto::{Cid, RecordUri};

use super::partitions::{PerPartition, Tables};
use super::{Db, StoreError, on};

/// A label that a labeler issued. A newer label with the same subject, version and value replaces it
/// (`docs/adr/0092`).
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
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
    /// The time at which the label expires; `None`: never.
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

/// Maximum by which a label's `cts` may be ahead of its receipt, in seconds: clocks are a little off. A `cts` that is
/// further ahead is wrong, and says nothing about the order.
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

/// The labels of one key that remain to be stored: at most two, in this order.
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

/// Labels in effect of one subject that are read, the newest: labelers have no limit, and the labels of a page of subjects must
/// not take megabytes.
const MAX_PER_SUBJECT: i64 = 1_000;

/// The versions of records in the index, and the self-labels of those that are visible.
///
/// Self-labels longer than 16 KiB are ignored: the lexicon allows ten values of 128 bytes.
///
/// $1: the subjects as `[uri, did, collection, rkey]`.
const RECORDS_SQLITE: &str = "SELECT s.value ->> 0 AS uri, d.did AS did, r.cid AS cid, CASE WHEN d.status = 0 \
            AND json_type(r.record, '$.labels.values') = 'array' \
            AND octet_length(json_extract(r.record, '$.labels.values')) <= 16384 \
            THEN json_extract(r.record, '$.labels.values') END AS self_labels \
        FROM json_each($1) s CROSS JOIN dids d ON d.did = s.value ->> 1 \
        CROSS JOIN collections c ON c.nsid = s.value ->> 2 \
        CROSS JOIN records r ON r.collection_id = c.id AND r.did_id = d.id AND r.rkey = s.value ->> 3";
static RECORDS_POSTGRES: PerPartition<String> = PerPartition::new(|Tables { records, .. }| {
    format!(
        "SELECT s ->> 0 AS uri, d.did AS did, r.cid AS cid, CASE WHEN d.status = 0 \
            AND jsonb_typeof(r.record #> '{{labels,values}}') = 'array' \
            AND octet_length((r.record #> '{{labels,values}}')::text) <= 16384 \
            THEN (r.record #> '{{labels,values}}')::text END AS self_labels \
        FROM jsonb_array_elements($1::jsonb) s JOIN dids d ON d.did = s ->> 1 \
        JOIN collections c ON c.nsid = s ->> 2 \
        JOIN {records} r ON r.collection_id = c.id AND r.did_id = d.id AND r.rkey = s ->> 3"
    )
});

/// The condition that a label `l` of a subject is in force at `now`: neither negated nor expired, for any version of the record or for
/// the one whose CID is the text `version`, and not of a labeler that is being deleted.
pub(super) fn in_force(now: &str, version: &str) -> String {
    format!(
        "NOT l.neg AND (l.exp IS NULL OR l.exp > {now}) AND (l.cid IS NULL OR l.cid = {version}) \
         AND NOT EXISTS (SELECT 1 FROM labelers b WHERE b.did = l.src AND b.status = 'deleting')"
    )
}

/// The labels of labelers.
///
/// $1: the subjects as `[uri, cid]`, with the version in the index. $2: the current time. $3: [`MAX_PER_SUBJECT`].
fn active_labels(subjects: &str, version: &str) -> String {
    format!(
        "SELECT uri, src, val, cts FROM (SELECT l.uri, l.src, l.val, l.cts, \
             row_number() OVER (PARTITION BY l.uri ORDER BY l.cts DESC, l.src, l.val) AS place FROM {subjects} \
             WHERE {}) newest WHERE place <= $3",
        in_force("$2", version)
    )
}
static ACTIVE_SQLITE: LazyLock<String> = LazyLock::new(|| {
    active_labels("json_each($1) s CROSS JOIN labels l ON l.uri = s.value ->> 0", "s.value ->> 1")
});
static ACTIVE_POSTGRES: LazyLock<String> = LazyLock::new(|| {
    active_labels("jsonb_array_elements($1::jsonb) s JOIN labels l ON l.uri = s ->> 0", "s ->> 1")
});

#[derive(sqlx::FromRow)]
struct RecordOf {
    uri: String,
    did: String,
    cid: Option<Vec<u8>>,
    self_labels: Option<String>,
}

/// The labels in effect at `now`, by subject: those of labelers, at most [`MAX_PER_SUBJECT`] of each subject, then the
/// self-labels of visible records, both sorted by source and value. A label for a record and the same one for its current
/// version appear once, with the later `cts`. Subjects without labels are left out. Takes two queries.
pub async fn active(
    db: &Db,
    subjects: &[String],
    now: Timestamp,
) -> Result<HashMap<String, Vec<ActiveLabel>>, StoreError> {
    let subjects: BTreeSet<&str> = subjects.iter().map(String::as_str).collect();
    let records = records_of(db, &subjects).await?;
    let version =
        |uri: &str| Cid::from_bytes(records.get(uri)?.cid.as_ref()?).ok().map(|cid| cid.to_string());
    let versions = subjects.iter().map(|uri| json!([uri, version(uri)])).collect();
    let versions = Value::Array(versions).to_string();
    macro_rules! labels {
        ($sql:expr, $pool:expr) => {
            sqlx::query_as($sql).bind(versions).bind(now).bind(MAX_PER_SUBJECT).fetch_all($pool).await?
        };
    }
    let labels: Vec<(String, String, String, Timestamp)> = match db {
        Db::Sqlite(db) => labels!(&**ACTIVE_SQLITE, &db.reader),
        Db::Postgres(db) => labels!(&**ACTIVE_POSTGRES, db.reader()),
    };
    let mut found: HashMap<String, Vec<ActiveLabel>> = HashMap::new();
    for (uri, src, val, cts) in labels {
        let val = val.split(VERSION_MARK).next().unwrap_or_default().to_owned();
        found.entry(uri).or_default().push(ActiveLabel { src, val, cts: Some(cts) });
    }
    for (uri, RecordOf { did, self_labels, .. }) in records {
        let vals = self_labels.as_deref().map(self_label_values).unwrap_or_default();
        if !vals.is_empty() {
            let label = |val| ActiveLabel { src: did.clone(), val, cts: None };
            found.entry(uri).or_default().extend(vals.into_iter().map(label));
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

/// The records among the subjects that are in the index.
async fn records_of(db: &Db, subjects: &BTreeSet<&str>) -> Result<HashMap<String, RecordOf>, StoreError> {
    let record = |uri: &&str| {
        let r = RecordUri::parse(uri).ok()?;
        Some(json!([uri, r.did.as_str(), r.collection.as_str(), r.rkey.as_str()]))
    };
    let records: Vec<Value> = subjects.iter().filter_map(record).collect();
    if records.is_empty() {
        return Ok(HashMap::new());
    }
    let records = Value::Array(records).to_string();
    let mut found = HashMap::new();
    for part in db.ids().parts().iter().copied() {
        let rows: Vec<RecordOf> = match db {
            Db::Sqlite(db) => sqlx::query_as(RECORDS_SQLITE).bind(&records).fetch_all(&db.reader).await?,
            Db::Postgres(db) => {
                sqlx::query_as(*RECORDS_POSTGRES.of(part)).bind(&records).fetch_all(db.reader()).await?
            }
        };
        found.extend(rows.into_iter().map(|row| (row.uri.clone(), row)));
    }
    Ok(found)
}

/// The values in a record's `labels.values`, `[{"val": …}]`; entries of another form are ignored.
fn self_label_values(json: &str) -> Vec<String> {
    let Ok(Value::Array(entries)) = serde_json::from_str(json) else { return Vec::new() };
    entries.iter().filter_map(|entry| entry.get("val")?.as_str().map(str::to_owned)).collect()
}
