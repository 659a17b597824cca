//! Stores uploaded lexicons.

pub(super) mod upload;

use belvedere_base::clock::Timestamp;

use serde_json::{Value, json};

use super::lexicon_revisions::{self, MAX_REVISIONS};
use super::{Db, StoreError, in_transaction, on};

pub use upload::{Change, Identical, LexiconSetting, NewLexicon, Upserted, rows_with, upsert, upsert_all};

/// The `source` of a lexicon that an operator uploaded.
pub const MANUAL: &str = "manual";

/// The `source` of a lexicon that follows its publisher on the network.
pub const NETWORK: &str = "network";

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
    /// [`MANUAL`] or [`NETWORK`].
    pub source: String,
    pub authority_did: Option<String>,
    pub last_fetched_at: Option<Timestamp>,
    pub token_cost: Option<i64>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

impl LexiconRow {
    /// The row as [`versions`] reads it.
    #[must_use]
    pub fn version(&self) -> Self {
        Self { lexicon_json: String::new(), last_fetched_at: None, ..self.clone() }
    }
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
pub(super) use select;

/// The parameter for statements about several lexicons.
pub(super) fn ids<'a>(ids: impl IntoIterator<Item = &'a str>) -> String {
    ids.into_iter().map(|id| json!({ "id": id })).collect::<Value>().to_string()
}

/// All lexicons, sorted by id.
pub async fn list(db: &Db) -> Result<Vec<LexiconRow>, StoreError> {
    let sql = select!("ORDER BY id");
    Ok(on!(db, reader, |pool| sqlx::query_as(sql).fetch_all(pool).await)?)
}

/// All lexicons, sorted by id, without their texts and the times of their last fetch. As long as a row is the same, so is
/// its text: each change of it has another revision, or another `created_at` after a deletion.
pub async fn versions(db: &Db) -> Result<Vec<LexiconRow>, StoreError> {
    let sql = "SELECT id, revision, '' AS lexicon_json, lexicon_type, backfill, action, target_collection, source, \
                   authority_did, CAST(NULL AS BIGINT) AS last_fetched_at, token_cost, created_at, updated_at \
               FROM lexicons ORDER BY id";
    Ok(on!(db, reader, |pool| sqlx::query_as(sql).fetch_all(pool).await)?)
}

pub async fn get(db: &Db, id: &str) -> Result<Option<LexiconRow>, StoreError> {
    let sql = select!("WHERE id = $1");
    Ok(on!(db, reader, |pool| sqlx::query_as(sql).bind(id).fetch_optional(pool).await)?)
}

/// Removes a lexicon and its history within a transaction: `false` when there is none.
macro_rules! remove {
    ($tx:ident, $db:expr, $id:expr) => {{
        let id: &str = $id;
        let delete = sqlx::query("DELETE FROM lexicons WHERE id = $1").bind(id);
        let removed = delete.execute(&mut *$tx).await?.rows_affected() > 0;
        let drop_old = sqlx::query($crate::store::lexicon_revisions::drop_old($db));
        let drop_old = drop_old.bind($crate::store::lexicons::ids([id]));
        drop_old.bind($crate::store::lexicon_revisions::MAX_REVISIONS).execute(&mut *$tx).await?;
        removed
    }};
}
pub(super) use remove;

/// Removes a lexicon and its history. `false` when the lexicon does not exist.
pub async fn delete(db: &Db, id: &str) -> Result<bool, StoreError> {
    Ok(in_transaction!(db, |tx| { remove!(tx, db, id) }))
}

/// Removes a lexicon that follows the network, and its history. `false` when there is none with this id.
pub async fn delete_network(db: &Db, id: &str) -> Result<bool, StoreError> {
    let sql = "DELETE FROM lexicons WHERE id = $1 AND source = $2";
    let drop_old = lexicon_revisions::drop_old(db);
    Ok(in_transaction!(db, |tx| {
        let removed = sqlx::query(sql).bind(id).bind(NETWORK).execute(&mut *tx).await?.rows_affected();
        sqlx::query(drop_old).bind(ids([id])).bind(MAX_REVISIONS).execute(&mut *tx).await?;
        removed > 0
    }))
}

/// A document that was fetched for a lexicon that follows the network.
#[derive(Clone, Copy, Debug)]
pub struct Refreshed<'a> {
    pub id: &'a str,
    /// The revision that the document was compared with.
    pub revision: i64,
    pub authority_did: &'a str,
    /// The new text and its type; `None` when the stored document is still the published one.
    pub document: Option<(&'a str, &'a str)>,
}

/// Stores the result of a fetch; a new document increments the revision. `false` when the lexicon was changed, replaced
/// by an upload or deleted since.
pub async fn refresh(db: &Db, fetched: &Refreshed<'_>, now: Timestamp) -> Result<bool, StoreError> {
    let kept = "UPDATE lexicons SET authority_did = $4, last_fetched_at = $5 \
                WHERE id = $1 AND source = $2 AND revision = $3";
    let replaced = "UPDATE lexicons SET authority_did = $4, last_fetched_at = $5, updated_at = $5, \
                        revision = revision + 1, lexicon_json = $6, lexicon_type = $7 \
                    WHERE id = $1 AND source = $2 AND revision = $3";
    let (add, drop_old) = (lexicon_revisions::add(db), lexicon_revisions::drop_old(db));
    let updated = in_transaction!(db, |tx| {
        let mut query = sqlx::query(if fetched.document.is_some() { replaced } else { kept })
            .bind(fetched.id)
            .bind(NETWORK)
            .bind(fetched.revision)
            .bind(fetched.authority_did)
            .bind(now);
        if let Some((json, kind)) = fetched.document {
            query = query.bind(json).bind(kind);
        }
        let updated = query.execute(&mut *tx).await?.rows_affected() > 0;
        if updated && fetched.document.is_some() {
            let changed = ids([fetched.id]);
            sqlx::query(add).bind(&changed).bind(now).execute(&mut *tx).await?;
            sqlx::query(drop_old).bind(&changed).bind(MAX_REVISIONS).execute(&mut *tx).await?;
        }
        updated
    });
    Ok(updated)
}
