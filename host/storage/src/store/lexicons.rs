//! Stores uploaded lexicons.

use belvedere_base::clock::Timestamp;

use super::lexicon_revisions::{ADD, DROP_OLD, MAX_REVISIONS};
use super::{Db, StoreError, in_transaction, on, only_row};

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
    /// The admin's DID, for the revision.
    pub saved_by: Option<String>,
}

/// Adds the stored document of a lexicon to its history and removes the oldest ones, within a transaction.
macro_rules! add_revision {
    ($tx:ident, $id:expr, $saved_by:expr, $now:expr) => {
        sqlx::query(ADD).bind($id).bind($saved_by).bind($now).execute(&mut *$tx).await?;
        sqlx::query(DROP_OLD).bind($id).bind(MAX_REVISIONS).execute(&mut *$tx).await?;
    };
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
    let revision: i64 = in_transaction!(db, |tx| {
        let revision = sqlx::query_scalar(sql)
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
            .fetch_all(&mut *tx)
            .await
            .and_then(|rows| only_row(rows).ok_or(sqlx::Error::RowNotFound))?;
        add_revision!(tx, &lexicon.id, &lexicon.saved_by, now);
        revision
    });
    Ok(Upserted { created: revision == 1, revision })
}

/// Removes a lexicon and its history. `false` when the lexicon does not exist.
pub async fn delete(db: &Db, id: &str) -> Result<bool, StoreError> {
    let sql = "DELETE FROM lexicons WHERE id = $1";
    Ok(in_transaction!(db, |tx| {
        let removed = sqlx::query(sql).bind(id).execute(&mut *tx).await?.rows_affected();
        sqlx::query(DROP_OLD).bind(id).bind(MAX_REVISIONS).execute(&mut *tx).await?;
        removed > 0
    }))
}

/// Removes a lexicon that follows the network, and its history. `false` when there is none with this id.
pub async fn delete_network(db: &Db, id: &str) -> Result<bool, StoreError> {
    let sql = "DELETE FROM lexicons WHERE id = $1 AND source = $2";
    Ok(in_transaction!(db, |tx| {
        let removed = sqlx::query(sql).bind(id).bind(NETWORK).execute(&mut *tx).await?.rows_affected();
        sqlx::query(DROP_OLD).bind(id).bind(MAX_REVISIONS).execute(&mut *tx).await?;
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
            add_revision!(tx, fetched.id, None::<&str>, now);
        }
        updated
    });
    Ok(updated)
}
