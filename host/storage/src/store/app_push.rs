//! Stores the lexicons and scripts of a pushed app in one transaction: all or none.

use belvedere_base::clock::Timestamp;

use super::lexicons::upload::{self, upload};
use super::lexicons::{self, Identical, NewLexicon, Upserted};
use super::scripts::{self, NewScript};
use super::{Db, StoreError};

/// The changes of a push.
#[derive(Debug, Default)]
pub struct AppPush {
    pub lexicons: Vec<NewLexicon>,
    pub deleted_lexicons: Vec<String>,
    /// With the revisions that they replace.
    pub scripts: Vec<NewScript>,
    /// Trigger ids.
    pub deleted_scripts: Vec<String>,
    /// The admin's DID, for the revisions of deletions.
    pub pushed_by: String,
}

/// Stores everything, and returns the results of the lexicons in their order.
///
/// # Errors
/// [`StoreError::Stale`] when one of them was changed since it was read, [`StoreError::Conflict`] when a method would have a
/// script and a view. Then nothing is stored.
pub async fn store(db: &Db, push: &AppPush, now: Timestamp) -> Result<Vec<Upserted>, StoreError> {
    let pushed_by = Some(push.pushed_by.as_str());
    // The same code in the transaction of either database. Deletions come first: a script may replace a view, and the other way round.
    macro_rules! store {
        ($tx:ident, $dialect:ident) => {{
            let results = upload!($tx, $dialect, db, &push.lexicons, Identical::Stays, now);
            for id in &push.deleted_lexicons {
                lexicons::remove!($tx, db, id);
            }
            for id in &push.deleted_scripts {
                scripts::remove!($tx, id, pushed_by, now);
            }
            for script in &push.scripts {
                scripts::save!($tx, script, now);
            }
            $tx.commit().await?;
            Ok(results)
        }};
    }
    match db {
        Db::Sqlite(sqlite) => {
            let mut tx = sqlite.writer.begin_with("BEGIN IMMEDIATE").await?;
            store!(tx, sqlite)
        }
        Db::Postgres(postgres) => {
            let mut tx = postgres.writer().begin().await?;
            for lock in [upload::LOCK_POSTGRES, scripts::LOCK_POSTGRES] {
                sqlx::query(lock).execute(&mut *tx).await?;
            }
            store!(tx, postgres)
        }
    }
}
