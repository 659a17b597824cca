//! Stores uploaded lexicons.

use crate::clock::Timestamp;

use super::{Db, StoreError, on, only_row};

#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct LexiconRow {
    pub id: String,
    /// 1 after the first upload, incremented by each upsert.
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

/// The fields that the caller sets; an upsert overwrites all of them.
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

macro_rules! select {
    ($tail:literal) => {
        concat!(
            "SELECT id, revision, lexicon_json, lexicon_type, backfill, action, target_collection, source, \
                 authority_did, last_fetched_at, token_cost, created_at, updated_at FROM lexicons ",
            $tail
        )
    };
}

/// All lexicons, sorted by id.
pub async fn list(db: &Db) -> Result<Vec<LexiconRow>, StoreError> {
    let sql = select!("ORDER BY id");
    Ok(on!(db, reader, |pool| sqlx::query_as(sql).fetch_all(pool).await)?)
}

pub async fn get(db: &Db, id: &str) -> Result<Option<LexiconRow>, StoreError> {
    let sql = select!("WHERE id = $1");
    Ok(on!(db, reader, |pool| sqlx::query_as(sql).bind(id).fetch_optional(pool).await)?)
}

/// Creates a lexicon with revision 1, or overwrites all fields and increments the revision.
pub async fn upsert(db: &Db, lexicon: &NewLexicon, now: Timestamp) -> Result<Upserted, StoreError> {
    let sql = "INSERT INTO lexicons (id, revision, lexicon_json, lexicon_type, backfill, action, \
                   target_collection, source, authority_did, last_fetched_at, token_cost, created_at, updated_at) \
               VALUES ($1, 1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $11) \
               ON CONFLICT (id) DO UPDATE SET revision = lexicons.revision + 1, \
                   lexicon_json = excluded.lexicon_json, lexicon_type = excluded.lexicon_type, \
                   backfill = excluded.backfill, action = excluded.action, \
                   target_collection = excluded.target_collection, source = excluded.source, \
                   authority_did = excluded.authority_did, last_fetched_at = excluded.last_fetched_at, \
                   token_cost = excluded.token_cost, updated_at = excluded.updated_at \
               RETURNING revision";
    let revision: i64 = on!(db, writer, |pool| {
        sqlx::query_scalar(sql)
            .bind(&lexicon.id)
            .bind(&lexicon.lexicon_json)
            .bind(&lexicon.lexicon_type)
            .bind(lexicon.backfill)
            .bind(&lexicon.action)
            .bind(&lexicon.target_collection)
            .bind(&lexicon.source)
            .bind(&lexicon.authority_did)
            .bind(lexicon.last_fetched_at)
            .bind(lexicon.token_cost)
            .bind(now)
            .fetch_all(pool)
            .await
            .and_then(|rows| only_row(rows).ok_or(sqlx::Error::RowNotFound))
    })?;
    Ok(Upserted { created: revision == 1, revision })
}

/// `false` when the lexicon does not exist.
pub async fn delete(db: &Db, id: &str) -> Result<bool, StoreError> {
    let sql = "DELETE FROM lexicons WHERE id = $1";
    let removed = on!(db, writer, |pool| sqlx::query(sql).bind(id).execute(pool).await?.rows_affected());
    Ok(removed > 0)
}
