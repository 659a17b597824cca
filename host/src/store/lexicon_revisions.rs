//! Keeps the last documents of each lexicon. [`super::lexicons`] adds one in the transaction of each change.

use crate::clock::Timestamp;

use super::{Db, StoreError, on};

/// Revisions kept of each lexicon: more than a published lexicon usually gets.
pub const MAX_REVISIONS: i64 = 50;

/// A revision, without its document.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct RevisionRow {
    pub revision: i64,
    /// [`super::lexicons::MANUAL`] or [`super::lexicons::NETWORK`].
    pub source: String,
    /// The admin's DID; `None` if the network changed it, or if it is not known.
    pub saved_by: Option<String>,
    pub saved_at: Timestamp,
    /// Bytes of the document.
    pub bytes: i64,
}

/// A revision with its document.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct FullRevision {
    #[sqlx(flatten)]
    pub row: RevisionRow,
    pub lexicon_json: String,
}

/// Adds the stored document as a revision. Parameters: id, `saved_by`, `saved_at`.
pub(super) const ADD: &str = "INSERT INTO lexicon_revisions (lexicon_id, revision, lexicon_json, source, saved_by, saved_at) \
     SELECT id, revision, lexicon_json, source, $2, $3 FROM lexicons WHERE id = $1 \
     ON CONFLICT (lexicon_id, revision) DO UPDATE SET lexicon_json = excluded.lexicon_json, \
         source = excluded.source, saved_by = excluded.saved_by, saved_at = excluded.saved_at";

/// Removes the oldest revisions of a lexicon, and those of an earlier lexicon of the same id. Parameters: id,
/// [`MAX_REVISIONS`].
pub(super) const DROP_OLD: &str = "DELETE FROM lexicon_revisions WHERE lexicon_id = $1 AND NOT EXISTS (\
         SELECT 1 FROM lexicons l WHERE l.id = $1 \
             AND lexicon_revisions.revision > l.revision - $2 AND lexicon_revisions.revision <= l.revision)";

macro_rules! select {
    ($columns:literal, $tail:literal) => {
        concat!(
            "SELECT revision, source, saved_by, saved_at, CAST(octet_length(lexicon_json) AS BIGINT) AS bytes",
            $columns,
            " FROM lexicon_revisions WHERE lexicon_id = $1 ",
            $tail
        )
    };
}

/// The revisions of a lexicon, newest first.
pub async fn list(db: &Db, id: &str) -> Result<Vec<RevisionRow>, StoreError> {
    let sql = select!("", "ORDER BY revision DESC");
    Ok(on!(db, reader, |pool| sqlx::query_as(sql).bind(id).fetch_all(pool).await)?)
}

/// One revision with its document.
pub async fn get(db: &Db, id: &str, revision: i64) -> Result<Option<FullRevision>, StoreError> {
    let sql = select!(", lexicon_json", "AND revision = $2");
    Ok(on!(db, reader, |pool| sqlx::query_as(sql).bind(id).bind(revision).fetch_optional(pool).await)?)
}
