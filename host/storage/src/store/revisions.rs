//! Reads the revisions of scripts and lexicons. [`super::script_revisions`] and [`super::lexicon_revisions`] add and remove
//! them.

use belvedere_base::clock::Timestamp;

use super::{Db, StoreError, on};

/// The kinds of subjects that have revisions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    Script,
    Lexicon,
}

impl Subject {
    /// The word for it in errors.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Script => "script",
            Self::Lexicon => "lexicon",
        }
    }
}

/// A revision, without its text.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct RevisionRow {
    pub revision: i64,
    /// For a script `saved`, or `deleted` for the revision that a deletion adds; for a lexicon its source,
    /// [`super::lexicons::MANUAL`] or [`super::lexicons::NETWORK`].
    pub kind: String,
    /// Lexicons have none.
    pub description: Option<String>,
    /// The admin's DID; `None` if the network changed it, or if it is not known.
    pub saved_by: Option<String>,
    pub saved_at: Timestamp,
    /// Bytes of the text.
    pub bytes: i64,
}

/// A revision with its text: a script's body, or a lexicon's document. A deletion has none.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct FullRevision {
    #[sqlx(flatten)]
    pub row: RevisionRow,
    pub text: Option<String>,
}

/// The statement for each subject. The texts are columns that it reads as well.
macro_rules! select {
    ($subject:expr, $script_text:literal, $lexicon_text:literal, $tail:literal) => {
        match $subject {
            Subject::Script => concat!(
                "SELECT revision, kind, description, saved_by, saved_at, \
                     coalesce(CAST(octet_length(body) AS BIGINT), 0) AS bytes",
                $script_text,
                " FROM saved_scripts WHERE script_id = $1 ",
                $tail
            ),
            Subject::Lexicon => concat!(
                "SELECT revision, source AS kind, CAST(NULL AS TEXT) AS description, saved_by, saved_at, \
                     CAST(octet_length(lexicon_json) AS BIGINT) AS bytes",
                $lexicon_text,
                " FROM lexicon_revisions WHERE lexicon_id = $1 ",
                $tail
            ),
        }
    };
}

/// The revisions of a script or a lexicon, newest first.
pub async fn list(db: &Db, of: Subject, id: &str) -> Result<Vec<RevisionRow>, StoreError> {
    let sql = select!(of, "", "", "ORDER BY revision DESC");
    Ok(on!(db, reader, |pool| sqlx::query_as(sql).bind(id).fetch_all(pool).await)?)
}

/// One revision with its text.
pub async fn get(db: &Db, of: Subject, id: &str, revision: i64) -> Result<Option<FullRevision>, StoreError> {
    let sql = select!(of, ", body AS text", ", lexicon_json AS text", "AND revision = $2");
    Ok(on!(db, reader, |pool| sqlx::query_as(sql).bind(id).bind(revision).fetch_optional(pool).await)?)
}
