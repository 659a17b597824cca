//! Values of plugins, and rows as a crash leaves them, for tests of other rooms.

use belvedere_base::clock::Timestamp;

use super::super::{Db, on};

/// Scope and owner of each value, in order.
pub async fn values(db: &Db) -> Vec<String> {
    let sql = "SELECT scope || ' ' || owner FROM plugin_values ORDER BY 1";
    let found: Result<Vec<String>, sqlx::Error> =
        on!(db, reader, |pool| sqlx::query_scalar(sql).fetch_all(pool).await);
    found.expect("the database answers")
}

pub async fn keep(db: &Db, plugin: &str, scope: &str, owner: &str, expires_at: Option<Timestamp>) {
    let sql = "INSERT INTO plugin_values (plugin_id, scope, owner, key, value, expires_at) \
               VALUES ($1, $2, $3, 'key', $4, $5)";
    let kept: Result<(), sqlx::Error> = on!(db, writer, |pool| {
        let query =
            sqlx::query(sql).bind(plugin).bind(scope).bind(owner).bind(&b"value"[..]).bind(expires_at);
        query.execute(pool).await.map(drop)
    });
    kept.expect("the database answers");
}

/// Sets the number of pages that a failed sync has read.
pub async fn set_pages(db: &Db, id: &str, pages: i64) {
    let sql = "UPDATE external_accounts SET sync_pages = $2, sync_cursor = 'x' WHERE id = $1";
    let set: Result<(), sqlx::Error> =
        on!(db, writer, |pool| sqlx::query(sql).bind(id).bind(pages).execute(pool).await.map(drop));
    set.expect("the database answers");
}

/// The number of a plugin's accounts, with those whose tokens are being revoked.
pub async fn count(db: &Db, plugin: &str) -> i64 {
    let sql = "SELECT count(*) FROM external_accounts WHERE plugin_id = $1";
    let found: Result<i64, sqlx::Error> =
        on!(db, reader, |pool| sqlx::query_scalar(sql).bind(plugin).fetch_one(pool).await);
    found.expect("the database answers")
}

/// Adds an installed plugin without a module.
pub async fn add_plugin(db: &Db, id: &str) {
    let sql = "INSERT INTO plugins (id, source, module_sha256, manifest_sha256, pinned, manifest, requested, granted, \
                   status, traps, installed_at, loaded_at) \
               VALUES ($1, 'upload', '', '', $2, '{}', '[]', '[]', 'active', 0, 0, 0)";
    let added: Result<(), sqlx::Error> =
        on!(db, writer, |pool| sqlx::query(sql).bind(id).bind(false).execute(pool).await.map(drop));
    added.expect("the database answers");
}

/// Removes a plugin's row, as when a removal ends.
pub async fn drop_plugin(db: &Db, id: &str) {
    let sql = "DELETE FROM plugins WHERE id = $1";
    let removed: Result<(), sqlx::Error> =
        on!(db, writer, |pool| sqlx::query(sql).bind(id).execute(pool).await.map(drop));
    removed.expect("the database answers");
}

/// Copies an account: a running sync of another user, of a tenant, that became due at a time.
pub async fn copy_as_due(db: &Db, id: &str, user: &str, plugin: &str, tenant: &str, due_at: Timestamp) {
    let sql = "INSERT INTO external_accounts (id, did, plugin_id, account_id, access_token, token_type, config, collections, \
                   tenant, status, version, attempts, sync_status, sync_run, sync_due_at, sync_reached, sync_pages, \
                   sync_processed, sync_written, sync_skipped, sync_attempts, created_at, updated_at) \
               SELECT $2, $2, $3, account_id, access_token, token_type, config, collections, \
                   $4, 'linked', 1, 0, 'running', 1, $5, 0, 0, 0, 0, 0, 0, created_at, updated_at \
               FROM external_accounts WHERE id = $1";
    let copied: Result<(), sqlx::Error> = on!(db, writer, |pool| {
        let query = sqlx::query(sql).bind(id).bind(user).bind(plugin).bind(tenant).bind(due_at);
        query.execute(pool).await.map(drop)
    });
    copied.expect("the database answers");
}

/// The id of an account of a plugin, in any state.
pub async fn any_id(db: &Db, plugin: &str) -> String {
    let sql = "SELECT id FROM external_accounts WHERE plugin_id = $1 ORDER BY id LIMIT 1";
    let found: Result<String, sqlx::Error> =
        on!(db, reader, |pool| sqlx::query_scalar(sql).bind(plugin).fetch_one(pool).await);
    found.expect("the database answers")
}
