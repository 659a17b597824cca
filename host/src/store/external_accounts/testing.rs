//! What plugins keep, for tests of other rooms.

use crate::clock::Timestamp;

use super::super::{Db, on};

/// Scope and owner of each value, in order.
pub async fn values(db: &Db) -> Vec<String> {
    let sql = "SELECT scope || ' ' || owner FROM plugin_values ORDER BY 1";
    let found: Result<Vec<String>, sqlx::Error> =
        on!(db, reader, |pool| sqlx::query_scalar(sql).fetch_all(pool).await);
    found.unwrap()
}

pub async fn keep(db: &Db, plugin: &str, scope: &str, owner: &str, expires_at: Option<Timestamp>) {
    let sql = "INSERT INTO plugin_values (plugin_id, scope, owner, key, value, expires_at) \
               VALUES ($1, $2, $3, 'key', $4, $5)";
    let kept: Result<(), sqlx::Error> = on!(db, writer, |pool| {
        let query =
            sqlx::query(sql).bind(plugin).bind(scope).bind(owner).bind(&b"value"[..]).bind(expires_at);
        query.execute(pool).await.map(drop)
    });
    kept.unwrap();
}

/// Sets the number of pages that a failed sync has read.
pub async fn set_pages(db: &Db, id: &str, pages: i64) {
    let sql = "UPDATE external_accounts SET sync_pages = $2, sync_cursor = 'x' WHERE id = $1";
    let set: Result<(), sqlx::Error> =
        on!(db, writer, |pool| sqlx::query(sql).bind(id).bind(pages).execute(pool).await.map(drop));
    set.unwrap();
}
