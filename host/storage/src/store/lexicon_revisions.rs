//! Keeps the last documents of each lexicon. [`super::lexicons`] adds one in the transaction of each change, and
//! [`super::revisions`] reads them.

use super::Db;
use super::types::json_rows;

/// Revisions kept of each lexicon: more than a published lexicon usually gets.
pub const MAX_REVISIONS: i64 = 50;

macro_rules! add {
    ($dialect:ident) => {
        concat!(
            "INSERT INTO lexicon_revisions (lexicon_id, revision, lexicon_json, source, saved_by, saved_at) \
             SELECT l.id, l.revision, l.lexicon_json, l.source, v.value ->> 'saved_by', $2 FROM ",
            json_rows!($dialect, "$1"),
            " CROSS JOIN lexicons l WHERE l.id = v.value ->> 'id' \
             ON CONFLICT (lexicon_id, revision) DO UPDATE SET lexicon_json = excluded.lexicon_json, \
                 source = excluded.source, saved_by = excluded.saved_by, saved_at = excluded.saved_at"
        )
    };
}

/// Adds the stored documents as revisions. Parameters: a JSON list of objects with `id` and perhaps `saved_by`;
/// `saved_at`.
pub(super) fn add(db: &Db) -> &'static str {
    match db {
        Db::Sqlite(_) => add!(sqlite),
        Db::Postgres(_) => add!(postgres),
    }
}

macro_rules! drop_old {
    ($dialect:ident) => {
        concat!(
            "DELETE FROM lexicon_revisions WHERE lexicon_id IN (SELECT v.value ->> 'id' FROM ",
            json_rows!($dialect, "$1"),
            ") AND NOT EXISTS (SELECT 1 FROM lexicons l WHERE l.id = lexicon_revisions.lexicon_id \
                 AND lexicon_revisions.revision > l.revision - $2 AND lexicon_revisions.revision <= l.revision)"
        )
    };
}

/// Removes the oldest revisions of lexicons, and those of earlier lexicons of the same ids. Parameters: a
/// JSON list of objects with `id`; [`MAX_REVISIONS`].
pub(super) fn drop_old(db: &Db) -> &'static str {
    match db {
        Db::Sqlite(_) => drop_old!(sqlite),
        Db::Postgres(_) => drop_old!(postgres),
    }
}
