//! Stores when the scripts of schedules run next.

use belvedere_base::clock::Timestamp;

use super::{Db, StoreError, on};

/// A schedule.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct ScheduleRow {
    pub name: String,
    /// The cron expression and the time zone from which `next_at` was made.
    pub cron: String,
    pub timezone: String,
    pub next_at: Timestamp,
}

/// All schedules, by name.
pub async fn list(db: &Db) -> Result<Vec<ScheduleRow>, StoreError> {
    let sql = "SELECT name, cron, timezone, next_at FROM schedules ORDER BY name";
    Ok(on!(db, reader, |pool| sqlx::query_as(sql).fetch_all(pool).await)?)
}

/// Removes the schedule of the script with this id, in the transaction that deletes the script.
pub(super) const DROP_SCHEDULE: &str = "DELETE FROM schedules WHERE 'schedule:' || name = $1";

/// Stores a schedule whose script exists, unless it is stored with this expression and time zone. Another host may have deleted
/// the script meanwhile.
pub async fn set(db: &Db, row: &ScheduleRow) -> Result<(), StoreError> {
    let sql = "INSERT INTO schedules (name, cron, timezone, next_at) \
               SELECT $1, $2, $3, $4 WHERE EXISTS (SELECT 1 FROM scripts WHERE id = 'schedule:' || $1) \
               ON CONFLICT (name) DO UPDATE SET cron = excluded.cron, timezone = excluded.timezone, next_at = excluded.next_at \
               WHERE schedules.cron <> excluded.cron OR schedules.timezone <> excluded.timezone";
    on!(db, writer, |pool| {
        sqlx::query(sql)
            .bind(&row.name)
            .bind(&row.cron)
            .bind(&row.timezone)
            .bind(row.next_at)
            .execute(pool)
            .await?;
    });
    Ok(())
}

/// Sets the next time of a schedule whose time `from` has come. `false` when it was changed meanwhile.
pub async fn advance(db: &Db, name: &str, from: Timestamp, to: Timestamp) -> Result<bool, StoreError> {
    let sql = "UPDATE schedules SET next_at = $3 WHERE name = $1 AND next_at = $2";
    let changed = on!(db, writer, |pool| {
        sqlx::query(sql).bind(name).bind(from).bind(to).execute(pool).await?.rows_affected()
    });
    Ok(changed > 0)
}
