//! Reads the revisions of scripts and lexicons, and refuses changes that were based on an earlier one.
//! [`super::script_revisions`] and [`super::lexicon_revisions`] add and remove them.

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

/// The newest revision of a subject is another than the one that a change is based on (ADR 143).
#[derive(Debug, thiserror::Error)]
pub struct Stale {
    of: Subject,
    id: String,
    based_on: i64,
    /// `None` if the subject has no history: it never was, or it was a lexicon.
    newest: Option<RevisionRow>,
}

impl std::fmt::Display for Stale {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { of, id, based_on, newest } = self;
        write!(f, "the {} {id} ", of.as_str())?;
        let what = match newest {
            Some(row) if row.is_deletion() => "deleted",
            Some(_) if *based_on == 0 => "created",
            Some(_) => "changed",
            None => return write!(f, "does not exist, and this change is based on its revision {based_on}"),
        };
        write!(f, "was {what}")?;
        if let Some(row) = newest {
            let by = row.saved_by.as_deref().unwrap_or("the network");
            write!(f, " by {by} at {} (revision {})", row.saved_at, row.revision)?;
        }
        write!(f, ", and this change is based on revision {based_on}: load it again, and compare")
    }
}

impl RevisionRow {
    fn is_deletion(&self) -> bool {
        self.kind == "deleted"
    }
}

/// The newest revision of a subject. Parameter: its id.
pub(super) const fn newest(of: Subject) -> &'static str {
    select!(of, "", "", "ORDER BY revision DESC LIMIT 1")
}

/// Compares the newest revision with the one that a change is based on: 0 if its author knows of none.
pub(super) fn compare(
    of: Subject,
    id: &str,
    newest: Option<RevisionRow>,
    based_on: i64,
) -> Result<(), Box<Stale>> {
    let current = newest.as_ref().filter(|row| !row.is_deletion()).map_or(0, |row| row.revision);
    if current == based_on {
        return Ok(());
    }
    Err(Box::new(Stale { of, id: id.to_owned(), based_on, newest }))
}

/// Refuses a change in its transaction, after it has locked the subject and before it adds a revision, if it is based on
/// another revision than the newest.
macro_rules! check_base {
    ($tx:ident, $of:expr, $id:expr, $based_on:expr) => {
        if let Some(based_on) = $based_on {
            let newest = sqlx::query_as($crate::store::revisions::newest($of)).bind($id);
            let newest = newest.fetch_optional(&mut *$tx).await?;
            $crate::store::revisions::compare($of, $id, newest, based_on)?;
        }
    };
}
pub(super) use check_base;

/// A revision with its text: a script's body, or a lexicon's document. A deletion has none.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct FullRevision {
    #[sqlx(flatten)]
    pub row: RevisionRow,
    pub text: Option<String>,
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
