//! Stores uploads of lexicons: several in one transaction, all or none.

use std::collections::{HashMap, HashSet};

use belvedere_base::clock::Timestamp;
use belvedere_base::hand_over_thread::hand_over_thread;
use serde_json::{Value, json};

use super::LexiconRow;
use crate::store::{Db, StoreError};

/// The fields that the caller sets; an upsert overwrites all of them, but for those in `kept`.
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
    /// The settings that stay as they are if the lexicon is stored already.
    pub kept: Vec<LexiconSetting>,
    /// The admin's DID, for the revision.
    pub saved_by: Option<String>,
    /// The revision that it replaces, 0 for a new lexicon; `None`: whichever there is.
    pub based_on: Option<i64>,
}

/// A setting of a lexicon that its document does not contain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LexiconSetting {
    Backfill,
    Action,
    TargetCollection,
    TokenCost,
}

impl NewLexicon {
    /// The lexicon as it replaces a stored one. Only a lexicon of the same type keeps settings: those of a method mean
    /// nothing for a record.
    #[must_use]
    pub fn over(&self, row: &LexiconRow) -> Self {
        let mut lexicon = self.clone();
        let kept = self.kept.iter().filter(|_| row.lexicon_type == self.lexicon_type);
        for setting in kept {
            match setting {
                LexiconSetting::Backfill => lexicon.backfill = row.backfill,
                LexiconSetting::Action => lexicon.action.clone_from(&row.action),
                LexiconSetting::TargetCollection => {
                    lexicon.target_collection.clone_from(&row.target_collection);
                }
                LexiconSetting::TokenCost => lexicon.token_cost = row.token_cost,
            }
        }
        lexicon
    }

    /// Whether the stored lexicon has the same document, whatever its whitespace, and the same settings. `backfill` is
    /// not compared: it has an effect on the first upload only.
    pub fn is_stored_as(&self, row: &LexiconRow) -> bool {
        let new = (&self.action, &self.target_collection, self.token_cost);
        let same_settings = new == (&row.action, &row.target_collection, row.token_cost);
        let document = |text: &str| serde_json::from_str::<Value>(text).ok();
        let same_document = || {
            self.lexicon_json == row.lexicon_json
                || document(&self.lexicon_json).is_some_and(|new| document(&row.lexicon_json) == Some(new))
        };
        same_settings && same_document()
    }

    /// An element of the parameter of the statements.
    fn to_json(&self) -> Value {
        json!({
            "id": self.id,
            "lexicon_json": self.lexicon_json,
            "lexicon_type": self.lexicon_type,
            "backfill": self.backfill,
            "action": self.action,
            "target_collection": self.target_collection,
            "source": self.source,
            "authority_did": self.authority_did,
            "last_fetched_at": self.last_fetched_at.map(|at| at.0),
            "token_cost": self.token_cost,
            "saved_by": self.saved_by,
        })
    }
}

/// The rows as they would be if `new` were uploaded over them.
#[must_use]
pub fn rows_with(mut rows: Vec<LexiconRow>, new: &[NewLexicon]) -> Vec<LexiconRow> {
    let replaced: HashSet<&str> = new.iter().map(|lexicon| lexicon.id.as_str()).collect();
    rows.retain(|row| !replaced.contains(row.id.as_str()));
    rows.extend(new.iter().map(|lexicon| LexiconRow {
        id: lexicon.id.clone(),
        revision: 0,
        lexicon_json: lexicon.lexicon_json.clone(),
        lexicon_type: lexicon.lexicon_type.clone(),
        backfill: lexicon.backfill,
        action: lexicon.action.clone(),
        target_collection: lexicon.target_collection.clone(),
        source: lexicon.source.clone(),
        authority_did: lexicon.authority_did.clone(),
        last_fetched_at: lexicon.last_fetched_at,
        token_cost: lexicon.token_cost,
        created_at: Timestamp(0),
        updated_at: Timestamp(0),
    }));
    rows
}

/// The effect of an upload on a stored lexicon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    New,
    Changed,
    Unchanged,
}

impl Change {
    /// The name in the admin API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Changed => "changed",
            Self::Unchanged => "unchanged",
        }
    }
}

/// Whether an upload that changes nothing is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Identical {
    /// It is a revision like any other, and ends that the lexicon follows the network.
    Revises,
    /// The lexicon stays as it is.
    Stays,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Upserted {
    pub change: Change,
    pub revision: i64,
}

/// Creates a lexicon with revision 1, or overwrites it and increments the revision.
pub async fn upsert(db: &Db, lexicon: &NewLexicon, now: Timestamp) -> Result<Upserted, StoreError> {
    let one = upsert_all(db, std::slice::from_ref(lexicon), Identical::Revises, now).await?;
    one.into_iter().next().ok_or_else(|| StoreError::Corrupt("an upload has no result".to_owned()))
}

/// One upload at a time, so that each decides by the rows that it replaces, and two can't wait for each other. SQLite has
/// one writer anyway.
pub(in crate::store) const LOCK_POSTGRES: &str = "LOCK TABLE lexicons IN SHARE ROW EXCLUSIVE MODE";

/// The rows of the lexicons in the first parameter.
macro_rules! stored_sql {
    ($dialect:ident) => {
        concat!(
            $crate::store::lexicons::select!("WHERE id IN (SELECT v.value ->> 'id' FROM "),
            $crate::store::types::json_rows!($dialect, "$1"),
            ")"
        )
    };
}
pub(in crate::store) use stored_sql;

macro_rules! upsert_sql {
    ($dialect:ident) => {
        concat!(
            "INSERT INTO lexicons (id, revision, lexicon_json, lexicon_type, backfill, action, target_collection, \
                 source, authority_did, last_fetched_at, token_cost, created_at, updated_at) \
             SELECT v.value ->> 'id', 1, v.value ->> 'lexicon_json', v.value ->> 'lexicon_type', \
                 CAST(v.value ->> 'backfill' AS BOOLEAN), v.value ->> 'action', v.value ->> 'target_collection', \
                 v.value ->> 'source', v.value ->> 'authority_did', CAST(v.value ->> 'last_fetched_at' AS BIGINT), \
                 CAST(v.value ->> 'token_cost' AS BIGINT), $2, $2 FROM ",
            $crate::store::types::json_rows!($dialect, "$1"),
            " WHERE true ON CONFLICT (id) DO UPDATE SET revision = lexicons.revision + 1, \
                 lexicon_json = excluded.lexicon_json, lexicon_type = excluded.lexicon_type, \
                 backfill = excluded.backfill, action = excluded.action, \
                 target_collection = excluded.target_collection, source = excluded.source, \
                 authority_did = excluded.authority_did, last_fetched_at = excluded.last_fetched_at, \
                 token_cost = excluded.token_cost, updated_at = excluded.updated_at"
        )
    };
}
pub(in crate::store) use upsert_sql;

/// Stores lexicons of different ids within a transaction of either database: their results in the same order.
macro_rules! upload {
    ($tx:ident, $dialect:ident, $db:expr, $lexicons:expr, $identical:expr, $now:expr) => {{
        let lexicons: &[$crate::store::lexicons::NewLexicon] = $lexicons;
        for lexicon in lexicons {
            $crate::store::revisions::check_base!(
                $tx,
                $crate::store::revisions::Subject::Lexicon,
                &lexicon.id,
                lexicon.based_on
            );
        }
        let all = $crate::store::lexicons::ids(lexicons.iter().map(|lexicon| lexicon.id.as_str()));
        let sql = $crate::store::lexicons::upload::stored_sql!($dialect);
        let stored = sqlx::query_as(sql).bind(&all).fetch_all(&mut *$tx).await?;
        let (results, rows) = $crate::store::lexicons::upload::plan(lexicons, &stored, $identical);
        if let Some(rows) = rows {
            let upsert = sqlx::query($crate::store::lexicons::upload::upsert_sql!($dialect));
            upsert.bind(&rows).bind($now).execute(&mut *$tx).await?;
            sqlx::query($crate::store::lexicon_revisions::add($db))
                .bind(&rows)
                .bind($now)
                .execute(&mut *$tx)
                .await?;
            let drop_old = sqlx::query($crate::store::lexicon_revisions::drop_old($db));
            drop_old
                .bind(&rows)
                .bind($crate::store::lexicon_revisions::MAX_REVISIONS)
                .execute(&mut *$tx)
                .await?;
        }
        results
    }};
}
pub(in crate::store) use upload;

/// Like [`upsert`], for lexicons of different ids: all or none. Returns their results in the same order.
///
/// # Errors
/// [`StoreError::Stale`].
pub async fn upsert_all(
    db: &Db,
    lexicons: &[NewLexicon],
    identical: Identical,
    now: Timestamp,
) -> Result<Vec<Upserted>, StoreError> {
    let results;
    match db {
        Db::Sqlite(sqlite) => {
            let mut tx = sqlite.writer.begin_with("BEGIN IMMEDIATE").await?;
            results = upload!(tx, sqlite, db, lexicons, identical, now);
            tx.commit().await?;
        }
        Db::Postgres(postgres) => {
            let mut tx = postgres.writer().begin().await?;
            sqlx::query(LOCK_POSTGRES).execute(&mut *tx).await?;
            results = upload!(tx, postgres, db, lexicons, identical, now);
            tx.commit().await?;
        }
    }
    Ok(results)
}

/// The result of each lexicon, and those to store as a parameter of the statements.
pub(in crate::store) fn plan(
    lexicons: &[NewLexicon],
    stored: &[LexiconRow],
    identical: Identical,
) -> (Vec<Upserted>, Option<String>) {
    let stored: HashMap<&str, &LexiconRow> = stored.iter().map(|row| (row.id.as_str(), row)).collect();
    let bytes = lexicons.iter().map(|lexicon| lexicon.lexicon_json.len()).sum();
    hand_over_thread(bytes, || {
        let mut rows = Vec::new();
        let results = lexicons.iter().map(|lexicon| {
            let Some(row) = stored.get(lexicon.id.as_str()) else {
                rows.push(lexicon.to_json());
                return Upserted { change: Change::New, revision: 1 };
            };
            let lexicon = lexicon.over(row);
            if identical == Identical::Stays && lexicon.is_stored_as(row) {
                return Upserted { change: Change::Unchanged, revision: row.revision };
            }
            rows.push(lexicon.to_json());
            Upserted { change: Change::Changed, revision: row.revision + 1 }
        });
        let results = results.collect();
        (results, (!rows.is_empty()).then(|| Value::from(rows).to_string()))
    })
}
