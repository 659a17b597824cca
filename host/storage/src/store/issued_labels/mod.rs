//! Stores the labels that this instance issues as a labeler (ADR 128).

pub mod latest;

use sqlx::AssertSqlSafe;

use super::labels::{self, Label};
use super::{Db, StoreError, on};
use belvedere_base::clock::Timestamp;

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
pub(in crate::store) const LATEST: &str = "SELECT neg, exp, cts FROM issued_labels WHERE src = $3 AND uri = $1 AND val = $2 \
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
            // A label that was deleted here with its account is in force again.
            if latest.is_some() || !is_same {
                // No label is stored with a time after its receipt.
                for rows in labels::rows(std::slice::from_ref(&label), now.max(cts)) {
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
    let sql = after_sql();
    Ok(on!(db, reader, |pool| {
        let query = sqlx::query_as(AssertSqlSafe(sql)).bind(seq).bind(src);
        query.bind(i64::from(limit)).fetch_all(pool).await
    })?)
}

/// The statement of [`after`]. The source is an expression, so that it walks the numbers: nearly all labels have the source of
/// today, and through its index they would be sorted.
pub(in crate::store) fn after_sql() -> String {
    format!(
        "SELECT {COLUMNS} FROM issued_labels l WHERE l.seq > $1 AND l.src || '' = $2 ORDER BY l.seq LIMIT $3"
    )
}

/// The highest number; 0 without labels.
pub async fn last_seq(db: &Db) -> Result<i64, StoreError> {
    let sql = "SELECT coalesce(max(seq), 0) FROM issued_labels";
    Ok(on!(db, reader, |pool| sqlx::query_scalar(sql).fetch_one(pool).await)?)
}

/// The labels, of one subject or of all, that come before a number, newest first, at most `limit`.
pub async fn list(
    db: &Db,
    uri: Option<&str>,
    before: Option<i64>,
    limit: u32,
) -> Result<Vec<IssuedLabel>, StoreError> {
    let sql = list_sql(uri.is_some());
    Ok(on!(db, reader, |pool| {
        let query = sqlx::query_as(AssertSqlSafe(sql)).bind(before.unwrap_or(i64::MAX));
        query.bind(i64::from(limit)).bind(uri).fetch_all(pool).await
    })?)
}

/// The statement of [`list`].
pub(in crate::store) fn list_sql(has_uri: bool) -> String {
    let subject = if has_uri { "l.uri = $3" } else { "CAST($3 AS TEXT) IS NULL" };
    format!(
        "SELECT {COLUMNS} FROM issued_labels l WHERE l.seq < $1 AND {subject} ORDER BY l.seq DESC LIMIT $2"
    )
}
