//! The number of rows that a space has, for operators.

use belvedere_base::clock::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use super::super::{Db, StoreError, on};
use super::columns::SpaceId;

/// The number of rows that a space has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, sqlx::FromRow, Serialize, JsonSchema)]
pub struct SpaceCounts {
    /// Accounts and spaces in the list of members.
    pub members: i64,
    /// Repos that the host of the space lists.
    pub writers: i64,
    /// Records here, of authors whose accounts are active.
    pub records: i64,
    /// Services that receive notices.
    pub registrations: i64,
    /// Invites, also those that can no longer be used.
    pub invites: i64,
}

/// Counts the rows of a space.
pub async fn of(db: &Db, space: SpaceId, now: Timestamp) -> Result<SpaceCounts, StoreError> {
    let sql = "SELECT (SELECT count(*) FROM space_members WHERE space_id = $1) AS members, \
                   (SELECT count(*) FROM space_writers WHERE space_id = $1) AS writers, \
                   (SELECT CAST(coalesce(sum(r.records), 0) AS BIGINT) FROM space_repos r WHERE r.space_id = $1 \
                       AND NOT EXISTS (SELECT 1 FROM dids d WHERE d.did = r.author AND d.status <> 0)) AS records, \
                   (SELECT count(*) FROM space_registrations WHERE space_id = $1 AND expires_at > $2) AS registrations, \
                   (SELECT count(*) FROM space_invites WHERE space_id = $1) AS invites";
    Ok(on!(db, reader, |pool| sqlx::query_as(sql).bind(space).bind(now).fetch_one(pool).await)?)
}
