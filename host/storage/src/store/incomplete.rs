//! Marks a database that is being filled from another one (`transfer`). Until the move is complete, nothing else opens it.

use super::{Db, StoreError};

/// A table that exists as long as the database is incomplete.
pub(super) const MARKER: &str = "belvedere_move";

pub(super) const SET: &str = "CREATE TABLE belvedere_move (id BIGINT PRIMARY KEY)";
pub(super) const CLEAR: &str = "DROP TABLE belvedere_move";
pub(super) const IS_SET_SQLITE: &str =
    "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE name = 'belvedere_move')";
pub(super) const IS_SET_POSTGRES: &str = "SELECT to_regclass('belvedere_move') IS NOT NULL";

/// Refuses a database with the marker.
pub(super) async fn refuse(db: &Db) -> Result<(), StoreError> {
    let is_incomplete: bool = match db {
        Db::Sqlite(db) => sqlx::query_scalar(IS_SET_SQLITE).fetch_one(&db.reader).await?,
        Db::Postgres(db) => sqlx::query_scalar(IS_SET_POSTGRES).fetch_one(db.reader()).await?,
    };
    if is_incomplete {
        return Err(StoreError::Open(
            "it is incomplete: `belvedere move` fills it, or was interrupted. Run that command again until it succeeds, or use \
             the database that it reads"
                .into(),
        ));
    }
    Ok(())
}
