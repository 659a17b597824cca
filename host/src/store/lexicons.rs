//! Uploaded lexicons.

use crate::clock::Timestamp;

use super::{Db, StoreError};

#[derive(Clone, Debug, PartialEq)]
pub struct LexiconRow {
    pub id: String,
    /// 1 on first upload, one more with each upsert.
    pub revision: i64,
    pub lexicon_json: String,
    pub lexicon_type: String,
    pub backfill: bool,
    pub action: Option<String>,
    pub target_collection: Option<String>,
    /// `manual` or `network`.
    pub source: String,
    pub authority_did: Option<String>,
    pub last_fetched_at: Option<Timestamp>,
    pub token_cost: Option<i64>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// Everything a caller chooses; an upsert overwrites all of it.
#[derive(Clone, Debug, Default)]
pub struct NewLexicon {
    pub id: String,
    pub lexicon_json: String,
    pub lexicon_type: String,
    pub backfill: bool,
    pub action: Option<String>,
    pub target_collection: Option<String>,
    pub source: String,
    pub authority_did: Option<String>,
    pub last_fetched_at: Option<Timestamp>,
    pub token_cost: Option<i64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Upserted {
    pub created: bool,
    pub revision: i64,
}

/// By id.
pub async fn list(_db: &Db) -> Result<Vec<LexiconRow>, StoreError> {
    todo!()
}

pub async fn get(_db: &Db, _id: &str) -> Result<Option<LexiconRow>, StoreError> {
    todo!()
}

pub async fn upsert(_db: &Db, _lexicon: &NewLexicon, _now: Timestamp) -> Result<Upserted, StoreError> {
    todo!()
}

/// `false` when there was none.
pub async fn delete(_db: &Db, _id: &str) -> Result<bool, StoreError> {
    todo!()
}
