//! The state of alerts, which the host with the lease of upkeep writes: in transactions, so that a host that hung and wakes up
//! writes nothing.

use super::{AlertNotice, AlertState};
use crate::store::{Db, StoreError, on};
use belvedere_base::clock::Timestamp;

/// The outcome of a check.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    pub state: AlertState,
    pub state_at: Timestamp,
    pub value: Option<f64>,
    /// The change of state, if it is reported. It replaces one that has not been sent.
    pub notice: Option<AlertNotice>,
}

/// Stores the outcome of a check of this revision. `false` when the alert has changed or is gone: then nothing is stored.
pub async fn set_outcome(
    db: &Db,
    (id, revision): (&str, i64),
    outcome: Outcome,
    now: Timestamp,
) -> Result<bool, StoreError> {
    let sql = "UPDATE alerts SET state = $3, state_at = $4, value = $5, checked_at = $6, \
                   notice = coalesce($7, notice), \
                   notice_at = CASE WHEN $7 IS NULL THEN notice_at ELSE $6 END, \
                   attempts = CASE WHEN $7 IS NULL THEN attempts ELSE 0 END \
               WHERE id = $1 AND revision = $2";
    let written = on!(db, writer, |pool| {
        let mut tx = pool.begin().await?;
        let written = sqlx::query(sql)
            .bind(id)
            .bind(revision)
            .bind(outcome.state)
            .bind(outcome.state_at)
            .bind(outcome.value)
            .bind(now)
            .bind(outcome.notice.map(AlertNotice::as_str))
            .execute(&mut *tx)
            .await?
            .rows_affected();
        tx.commit().await?;
        written
    });
    Ok(written > 0)
}

/// Stores the outcome of an attempt to send the notice of `notice_at`: after success it is gone, and after `max_attempts` failed
/// ones too.
pub async fn set_sent(
    db: &Db,
    (id, notice_at): (&str, Timestamp),
    error: Option<&str>,
    max_attempts: i64,
) -> Result<(), StoreError> {
    let sql = "UPDATE alerts SET delivery_error = $3, attempts = attempts + 1, \
                   notice = CASE WHEN $3 IS NULL OR attempts + 1 >= $4 THEN NULL ELSE notice END \
               WHERE id = $1 AND notice_at = $2";
    on!(db, writer, |pool| {
        let mut tx = pool.begin().await?;
        sqlx::query(sql).bind(id).bind(notice_at).bind(error).bind(max_attempts).execute(&mut *tx).await?;
        tx.commit().await?;
    });
    Ok(())
}
