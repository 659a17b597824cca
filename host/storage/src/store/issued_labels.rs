//! Stores the labels that this instance issues as a labeler (ADR 128).

use sqlx::AssertSqlSafe;

use super::labels::{self, Label};
use super::{Db, StoreError, on};
use belvedere_base::clock::Timestamp;
use belvedere_web::fair_share::Tenant;

/// A label of this instance.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct IssuedLabel {
    /// The number of the message in which subscribers get it.
    pub seq: i64,
    #[sqlx(flatten)]
    pub label: Label,
    /// The DID of the operator, or the trigger of a script.
    pub created_by: String,
}

/// Between the times of two labels of the same subject, value and version, in microseconds.
const CTS_STEP: i64 = 1_000;

const COLUMNS: &str = "l.seq, l.src, l.uri, l.cid, l.val, l.neg, l.cts, l.exp, l.created_by";

/// The lock under which labels get their numbers: a subscriber that has seen a number gets no smaller one later.
const LOCK: &str = "SELECT pg_advisory_xact_lock(x'6c6162656c73'::bigint)";

/// The last label of the same subject, value and version. One that says the same changes nothing, nor does one that negates a
/// label that was never applied.
const LATEST: &str = "SELECT neg, exp, cts FROM issued_labels WHERE uri = $1 AND val = $2 AND src = $3 \
     AND coalesce(cid, '') = coalesce($4, '') ORDER BY seq DESC LIMIT 1";

/// Stores labels in order, for subscribers and among the labels that are in force here. Returns those that changed something.
pub async fn issue(
    db: &Db,
    issued: &[Label],
    created_by: &str,
    now: Timestamp,
) -> Result<Vec<IssuedLabel>, StoreError> {
    let insert = "INSERT INTO issued_labels (src, uri, cid, val, neg, cts, exp, created_by) \
                  VALUES ($1, $2, $3, $4, $5, $6, $7, $8) RETURNING seq";
    let (is_postgres, put) = match db {
        Db::Sqlite(_) => (false, labels::PUT_SQLITE),
        Db::Postgres(_) => (true, labels::PUT_POSTGRES),
    };
    on!(db, writer, |pool| {
        let mut tx = pool.begin().await?;
        if is_postgres {
            sqlx::query(LOCK).execute(&mut *tx).await?;
        }
        let mut changed = Vec::new();
        for label in issued {
            let query = sqlx::query_as(LATEST).bind(&label.uri).bind(&label.val).bind(&label.src);
            let latest: Option<(bool, Option<Timestamp>, Timestamp)> =
                query.bind(&label.cid).fetch_optional(&mut *tx).await?;
            let is_same = match latest {
                Some((neg, exp, _)) => neg == label.neg && (neg || exp == label.exp && !is_over(exp, now)),
                None => label.neg,
            };
            // The clock was read before the lock, perhaps by another host.
            let cts = match latest {
                Some((.., cts)) if is_same => cts,
                Some((.., cts)) => label.cts.max(Timestamp(cts.0 + CTS_STEP)),
                None => label.cts,
            };
            let label = Label { cts, ..label.clone() };
            // What was deleted here with its account is in force again.
            if latest.is_some() || !is_same {
                for rows in labels::rows(std::slice::from_ref(&label), now) {
                    sqlx::query(put).bind(rows).execute(&mut *tx).await?;
                }
            }
            if is_same {
                continue;
            }
            let seq: i64 = sqlx::query_scalar(insert)
                .bind(&label.src)
                .bind(&label.uri)
                .bind(&label.cid)
                .bind(&label.val)
                .bind(label.neg)
                .bind(label.cts)
                .bind(label.exp)
                .bind(created_by)
                .fetch_one(&mut *tx)
                .await?;
            changed.push(IssuedLabel { seq, label, created_by: created_by.to_owned() });
        }
        tx.commit().await?;
        Ok(changed)
    })
}

fn is_over(exp: Option<Timestamp>, now: Timestamp) -> bool {
    exp.is_some_and(|exp| exp <= now)
}

/// The labels of a source after a number, in the order of their numbers, at most `limit`.
pub async fn after(db: &Db, src: &str, seq: i64, limit: u32) -> Result<Vec<IssuedLabel>, StoreError> {
    let sql = format!(
        "SELECT {COLUMNS} FROM issued_labels l WHERE l.seq > $1 AND l.src = $2 ORDER BY l.seq LIMIT $3"
    );
    Ok(on!(db, reader, |pool| {
        let query = sqlx::query_as(AssertSqlSafe(sql)).bind(seq).bind(src);
        query.bind(i64::from(limit)).fetch_all(pool).await
    })?)
}

/// The highest number; 0 without labels.
pub async fn last_seq(db: &Db) -> Result<i64, StoreError> {
    let sql = "SELECT coalesce(max(seq), 0) FROM issued_labels";
    Ok(on!(db, reader, |pool| sqlx::query_scalar(sql).fetch_one(pool).await)?)
}

/// Subjects of labels: one, or all whose URIs begin with a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pattern {
    Exact(String),
    Prefix(String),
}

impl Pattern {
    /// The range of URIs: from the first, up to the second without it. No URI has control characters.
    fn range(&self) -> (String, String) {
        match self {
            Self::Exact(uri) => (uri.clone(), format!("{uri}\u{1}")),
            Self::Prefix(prefix) => (prefix.clone(), format!("{prefix}\u{10ffff}")),
        }
    }
}

/// The latest label of each subject, value and version, of a source and after a number, in the order of their numbers, at most
/// `limit`. Negations are among them: they say that a label is no longer in force.
///
/// # Errors
/// [`StoreError::Busy`] and [`StoreError::TooSlow`]: a pattern may select all labels.
pub async fn latest(
    db: &Db,
    src: &str,
    patterns: &[Pattern],
    (seq, limit): (i64, u32),
    tenant: &Tenant,
) -> Result<Vec<IssuedLabel>, StoreError> {
    if patterns.is_empty() {
        return Ok(Vec::new());
    }
    let _permit = db.scan_permit(tenant).await?;
    let sql = latest_sql(patterns);
    macro_rules! fetch {
        ($db:expr) => {{
            let query = sqlx::query_as(AssertSqlSafe(sql)).bind(seq).bind(src).bind(i64::from(limit));
            let ranges = patterns.iter().filter(|_| !selects_all(patterns)).map(Pattern::range);
            let query = ranges.fold(query, |query, (from, to)| query.bind(from).bind(to));
            query.fetch_all($db.scan_pool.reads()).await?
        }};
    }
    Ok(match db {
        Db::Sqlite(db) => fetch!(db),
        Db::Postgres(db) => fetch!(db),
    })
}

fn selects_all(patterns: &[Pattern]) -> bool {
    patterns.contains(&Pattern::Prefix(String::new()))
}

/// Labels of some subjects are found through their URIs, all labels in the order of their numbers.
fn latest_sql(patterns: &[Pattern]) -> String {
    let (with, found) = if selects_all(patterns) {
        (String::new(), "issued_labels")
    } else {
        let range = |n: usize| format!("l.uri >= ${} AND l.uri < ${}", n * 2 + 4, n * 2 + 5);
        let ranges: Vec<String> = (0..patterns.len()).map(range).collect();
        let ranges = ranges.join(" OR ");
        let with =
            format!("WITH found AS MATERIALIZED (SELECT {COLUMNS} FROM issued_labels l WHERE {ranges}) ");
        (with, "found")
    };
    format!(
        "{with}SELECT {COLUMNS} FROM {found} l WHERE l.seq > $1 AND l.src = $2 AND NOT EXISTS \
             (SELECT 1 FROM issued_labels n WHERE n.uri = l.uri AND n.val = l.val AND n.seq > l.seq AND n.src = l.src \
              AND coalesce(n.cid, '') = coalesce(l.cid, '')) ORDER BY l.seq LIMIT $3"
    )
}

/// The labels, of one subject or of all, that come before a number, newest first, at most `limit`.
pub async fn list(
    db: &Db,
    uri: Option<&str>,
    before: Option<i64>,
    limit: u32,
) -> Result<Vec<IssuedLabel>, StoreError> {
    let subject = if uri.is_some() { "l.uri = $3" } else { "CAST($3 AS TEXT) IS NULL" };
    let sql = format!(
        "SELECT {COLUMNS} FROM issued_labels l WHERE l.seq < $1 AND {subject} ORDER BY l.seq DESC LIMIT $2"
    );
    Ok(on!(db, reader, |pool| {
        let query = sqlx::query_as(AssertSqlSafe(sql)).bind(before.unwrap_or(i64::MAX));
        query.bind(i64::from(limit)).bind(uri).fetch_all(pool).await
    })?)
}
