//! Facts about accounts, without their records.

use super::types::to_json_text;
use super::{Db, StoreError};
use belvedere_protocol::atproto::Did;

/// Those of the accounts that are hidden.
pub async fn hidden(db: &Db, dids: &[Did]) -> Result<Vec<String>, StoreError> {
    let names: Vec<&str> = dids.iter().map(Did::as_str).collect();
    Ok(match db {
        Db::Sqlite(db) => {
            let sql =
                "SELECT d.did FROM json_each($1) v CROSS JOIN dids d WHERE d.did = v.value AND d.status <> 0";
            sqlx::query_scalar(sql).bind(to_json_text(&names)).fetch_all(db.read_pool.reads()).await?
        }
        Db::Postgres(db) => {
            let sql = "SELECT did FROM dids WHERE did = ANY($1) AND status <> 0";
            sqlx::query_scalar(sql).bind(names).fetch_all(db.read_pool.reads()).await?
        }
    })
}
