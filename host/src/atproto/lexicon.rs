//! Lexicon documents: parsing and checking what an operator uploads or the network publishes.

use serde_json::Value;

use super::Nsid;

/// What a lexicon is good for, by the type of its `main` definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LexiconKind {
    Record,
    Query,
    Procedure,
    Space,
    /// Anything else: stored, but nothing is routed or indexed because of it.
    Definitions,
}

impl LexiconKind {
    /// The name that the admin API shows as `lexicon_type`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Record => "record",
            Self::Query => "query",
            Self::Procedure => "procedure",
            Self::Space => "space",
            Self::Definitions => "definitions",
        }
    }
}

/// A checked lexicon document.
#[derive(Clone, Debug)]
pub struct LexiconDoc {
    pub id: Nsid,
    pub kind: LexiconKind,
    /// `defs.main.record`, of record lexicons.
    pub record_schema: Option<Value>,
    /// `defs.main.key`, of record and space lexicons.
    pub key: Option<String>,
}

/// Where a document is wrong, and why.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("invalid lexicon: {path}: {reason}")]
pub struct LexiconError {
    /// Dotted path from the document's root, such as `defs.main.record.properties.text.type`.
    pub path: String,
    pub reason: String,
}

impl LexiconDoc {
    /// Checks a document.
    ///
    /// # Errors
    /// The first thing that is wrong with it.
    pub fn parse(_document: &Value) -> Result<Self, LexiconError> {
        todo!()
    }
}
