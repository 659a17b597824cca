//! Work on rows that several hosts look for: the delivery of notices, the check of a followed space, the copy of a repo. A row has the
//! time of its next attempt. A host that begins one moves that time on, so that no other host begins it too; if the host ends before
//! the attempt does, another one begins when the time has come.

use belvedere_base::clock::Timestamp;

use super::super::{Db, StoreError, on};
use super::columns::SpaceId;

/// The statements for the rows of one table.
pub(super) struct Attempts {
    pub begin: &'static str,
    pub end: &'static str,
}

/// `table`, the column with the time of the next attempt, and the column that identifies a row in its space; `''` for a table with
/// one row for each space.
macro_rules! attempts {
    ($table:literal, $time:literal, $key:literal) => {
        $crate::store::spaces::attempts::Attempts {
            begin: concat!(
                "UPDATE ",
                $table,
                " SET ",
                $time,
                " = $4 WHERE space_id = $1 AND ",
                $key,
                " = $2 AND ",
                $time,
                " = $3"
            ),
            end: concat!(
                "UPDATE ",
                $table,
                " SET failures = CASE WHEN $4 THEN failures + 1 ELSE 0 END, ",
                $time,
                " = $5 \
                 WHERE space_id = $1 AND ",
                $key,
                " = $2 AND ",
                $time,
                " = $3"
            ),
        }
    };
}
pub(super) use attempts;

impl Attempts {
    /// Begins an attempt at a row whose time is `due`, after which the next is due at `until` unless it ends earlier. `false` when
    /// another host has begun one.
    pub(super) async fn begin(
        &self,
        db: &Db,
        (space, key): (SpaceId, &str),
        due: Timestamp,
        until: Timestamp,
    ) -> Result<bool, StoreError> {
        let begun = on!(db, writer, |pool| {
            let query = sqlx::query(self.begin).bind(space).bind(key).bind(due).bind(until);
            query.execute(pool).await?.rows_affected()
        });
        Ok(begun > 0)
    }

    /// Ends the attempt that [`Self::begin`] has begun with `until`. Nothing changes when another one has begun since, or the row
    /// has become due. Failures are counted until an attempt succeeds. `next`: `None` when there is nothing more to do.
    pub(super) async fn end(
        &self,
        db: &Db,
        (space, key): (SpaceId, &str),
        until: Timestamp,
        has_failed: bool,
        next: Option<Timestamp>,
    ) -> Result<(), StoreError> {
        on!(db, writer, |pool| {
            let query = sqlx::query(self.end).bind(space).bind(key).bind(until).bind(has_failed).bind(next);
            query.execute(pool).await.map(drop)
        })?;
        Ok(())
    }
}
