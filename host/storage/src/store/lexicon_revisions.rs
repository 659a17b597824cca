//! Keeps the last documents of each lexicon. [`super::lexicons`] adds one in the transaction of each change, and
//! [`super::revisions`] reads them.

/// Revisions kept of each lexicon: more than a published lexicon usually gets.
pub const MAX_REVISIONS: i64 = 50;

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
