//! Sets the statuses of the accounts of a batch.

use std::collections::HashMap;

use sqlx::PgConnection;

use super::super::ApplyReport;
use super::super::plan::Plan;
use crate::store::StoreError;
use crate::store::counts::{AccountFlip, Counting as _};
use crate::store::partitions::Partition;

/// Sets the statuses of accounts, and counts the records of those that are hidden or shown by that. Most accounts of the stream are
/// unknown here.
pub(super) async fn set(
    conn: &mut PgConnection,
    plan: &Plan<'_>,
    parts: &[Partition],
    applied: &mut ApplyReport,
) -> Result<(), StoreError> {
    let (dids, statuses) = plan.accounts.statuses();
    // Two statements: Citus can't pass what one part of a statement has locked to another.
    let lock = "SELECT d.did, d.id, d.status <> 0, v.status FROM UNNEST ($1::text[], $2::smallint[]) AS v (did, status) \
                    JOIN dids d ON d.did = v.did \
                WHERE coalesce(d.network_status, d.status) <> v.status ORDER BY d.did FOR UPDATE OF d";
    let query = sqlx::query_as(lock).bind(dids).bind(statuses);
    let locked: Vec<(String, i64, bool, i16)> = query.fetch_all(&mut *conn).await?;
    if locked.is_empty() {
        applied.statuses = plan.accounts.changed(&[]);
        return Ok(());
    }
    let update = "UPDATE dids SET status = CASE WHEN network_status IS NULL THEN v.status ELSE dids.status END, \
                      network_status = CASE WHEN network_status IS NOT NULL THEN v.status END, status_changed_at = $3 \
                  FROM UNNEST ($1::bigint[], $2::smallint[]) AS v (id, status) WHERE dids.id = v.id \
                  RETURNING dids.id, dids.status <> 0";
    let query = sqlx::query_as(update)
        .bind(locked.iter().map(|(_, id, ..)| *id).collect::<Vec<_>>())
        .bind(locked.iter().map(|(.., status)| *status).collect::<Vec<_>>())
        .bind(plan.now);
    let is_hidden: HashMap<i64, bool> = query.fetch_all(&mut *conn).await?.into_iter().collect();
    let flip = |(_, id, was_hidden, _): &(String, i64, bool, i16)| {
        AccountFlip::of(*id, *was_hidden, *is_hidden.get(id)?)
    };
    let flips: Vec<AccountFlip> = locked.iter().filter_map(flip).collect();
    conn.count_accounts(&flips, parts).await?;
    let dids: Vec<String> = locked.into_iter().map(|(did, ..)| did).collect();
    applied.statuses = plan.accounts.changed(&dids);
    Ok(())
}
