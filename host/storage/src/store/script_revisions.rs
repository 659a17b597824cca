//! Keeps the last revisions of each script. [`super::scripts`] adds one in the transaction of each change, and
//! [`super::revisions`] reads them.

use belvedere_base::clock::Timestamp;

use super::{Db, StoreError, on};

/// Revisions kept of each script: weeks of ordinary work. A body has half a MiB at most, so a script's history has
/// 25 MiB at most.
pub const MAX_REVISIONS: i64 = 50;

/// Deleted scripts whose revisions are kept, so that the history stays bounded when ids are never used again.
pub const MAX_DELETED: i64 = 100;

/// A script that was deleted and not created again.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct DeletedScript {
    pub script_id: String,
    pub revision: i64,
    pub saved_by: Option<String>,
    pub saved_at: Timestamp,
}

/// Adds the stored script as a revision, unless the last one has the same body and description. Parameters: id,
/// `saved_by`, `saved_at`.
pub(super) const ADD_SAVED: &str = "INSERT INTO saved_scripts (script_id, revision, kind, body, description, saved_by, saved_at) \
     SELECT s.id, coalesce((SELECT max(revision) FROM saved_scripts WHERE script_id = s.id), 0) + 1, \
         'saved', s.body, s.description, $2, $3 \
     FROM scripts s WHERE s.id = $1 AND NOT EXISTS (\
         SELECT 1 FROM saved_scripts l WHERE l.script_id = s.id AND l.body = s.body \
             AND l.description IS NOT DISTINCT FROM s.description \
             AND l.revision = (SELECT max(revision) FROM saved_scripts WHERE script_id = s.id))";

/// Adds the revision of a deletion. Parameters as of [`ADD_SAVED`].
pub(super) const ADD_DELETED: &str = "INSERT INTO saved_scripts (script_id, revision, kind, saved_by, saved_at) \
     SELECT $1, coalesce(max(revision), 0) + 1, 'deleted', $2, $3 FROM saved_scripts WHERE script_id = $1";

/// Removes the oldest revisions of a script. Parameters: id, [`MAX_REVISIONS`].
pub(super) const DROP_OLD: &str = "DELETE FROM saved_scripts WHERE script_id = $1 \
     AND revision <= (SELECT max(revision) FROM saved_scripts WHERE script_id = $1) - $2";

macro_rules! deleted {
    ($columns:literal) => {
        concat!(
            "SELECT ",
            $columns,
            " FROM saved_scripts d WHERE d.kind = 'deleted' AND NOT EXISTS (\
                 SELECT 1 FROM saved_scripts n WHERE n.script_id = d.script_id AND n.revision > d.revision) \
               ORDER BY d.saved_at DESC, d.script_id "
        )
    };
}

/// Removes the histories of the scripts that were deleted before the last [`MAX_DELETED`]. Parameter: that number.
pub(super) const DROP_DELETED: &str = concat!(
    "DELETE FROM saved_scripts WHERE script_id IN (",
    deleted!("d.script_id"),
    "LIMIT 1000000 OFFSET $1)"
);

/// The scripts that were deleted last, at most [`MAX_DELETED`], newest first.
pub async fn deleted(db: &Db) -> Result<Vec<DeletedScript>, StoreError> {
    let sql = concat!(deleted!("d.script_id, d.revision, d.saved_by, d.saved_at"), "LIMIT $1");
    Ok(on!(db, reader, |pool| sqlx::query_as(sql).bind(MAX_DELETED).fetch_all(pool).await)?)
}
