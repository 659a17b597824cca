//! Stores the installed plugins and their modules. A module is kept as long as a plugin uses it.

use belvedere_base::clock::Timestamp;

use super::text_enum::text_enum;
use super::types::{JsonText, to_json_text};
use super::{Db, StoreError, on, only_row};

#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct PluginRow {
    pub id: String,
    pub source: PluginSource,
    /// The URL as it was given, for downloaded plugins.
    pub url: Option<String>,
    /// Lower-case hex, as the other one.
    pub module_sha256: String,
    pub manifest_sha256: String,
    /// Whether the operator named the module's hash.
    pub pinned: bool,
    /// JSON text.
    pub manifest: String,
    /// Texts of permissions, as those that were granted.
    #[sqlx(try_from = "JsonText<Vec<String>>")]
    pub requested: Vec<String>,
    #[sqlx(try_from = "JsonText<Vec<String>>")]
    pub granted: Vec<String>,
    pub status: PluginState,
    /// The number of its calls that trapped in a row.
    pub traps: i64,
    pub last_error: Option<String>,
    /// `None` for one that the configuration names.
    pub installed_by: Option<String>,
    pub installed_at: Timestamp,
    /// The time at which this version was installed.
    pub loaded_at: Timestamp,
}

text_enum! {
    /// The origin of a plugin.
    pub enum PluginSource {
        Url = "url",
        Upload = "upload",
        /// A folder in `PLUGIN_DIR`.
        File = "file",
        /// An entry of `PLUGIN_URLS`.
        Environment = "environment",
    }
}

text_enum! {
    pub enum PluginState {
        Active = "active",
        /// It trapped too often.
        Paused = "paused",
        /// Its accounts' tokens are being revoked, then its row goes.
        Removing = "removing",
    }
}

/// A version of a plugin to install.
#[derive(Clone, Copy, Debug)]
pub struct NewPlugin<'a> {
    pub id: &'a str,
    pub source: PluginSource,
    pub url: Option<&'a str>,
    pub module: &'a [u8],
    pub module_sha256: &'a str,
    pub manifest_sha256: &'a str,
    pub pinned: bool,
    pub manifest: &'a str,
    pub requested: &'a [String],
    pub granted: &'a [String],
    pub installed_by: Option<&'a str>,
}

/// The row that an installation replaces.
#[derive(Clone, Copy, Debug)]
pub enum Replaces<'a> {
    /// Any, or none.
    Any,
    /// Only a row that still has these values.
    Version(&'a PluginRow),
}

macro_rules! columns {
    () => {
        "id, source, url, module_sha256, manifest_sha256, pinned, manifest, requested, granted, status, traps, \
         last_error, installed_by, installed_at, loaded_at"
    };
}

/// All plugins, oldest first.
pub async fn list(db: &Db) -> Result<Vec<PluginRow>, StoreError> {
    let sql = concat!("SELECT ", columns!(), " FROM plugins ORDER BY installed_at, id");
    Ok(on!(db, reader, |pool| sqlx::query_as(sql).fetch_all(pool).await)?)
}

pub async fn get(db: &Db, id: &str) -> Result<Option<PluginRow>, StoreError> {
    let sql = concat!("SELECT ", columns!(), " FROM plugins WHERE id = $1");
    Ok(on!(db, reader, |pool| sqlx::query_as(sql).bind(id).fetch_optional(pool).await)?)
}

/// The bytes of a module.
pub async fn module(db: &Db, sha256: &str) -> Result<Option<Vec<u8>>, StoreError> {
    let sql = "SELECT bytes FROM plugin_files WHERE sha256 = $1";
    Ok(on!(db, reader, |pool| sqlx::query_scalar(sql).bind(sha256).fetch_optional(pool).await)?)
}

/// One writer of modules at a time: a module that another transaction is about to use must not be removed. SQLite has one
/// writer anyway.
const LOCK_POSTGRES: &str = "LOCK TABLE plugin_files IN SHARE ROW EXCLUSIVE MODE";
const PUT_MODULE: &str =
    "INSERT INTO plugin_files (sha256, bytes, created_at) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING";
const REMOVE_UNUSED: &str = "DELETE FROM plugin_files WHERE NOT EXISTS (SELECT 1 FROM plugins WHERE module_sha256 = plugin_files.sha256)";
const PUT: &str = concat!(
    "INSERT INTO plugins (",
    columns!(),
    ") SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, 'active', 0, NULL, $10, $11, $11 \
       WHERE $12 IS NULL OR EXISTS (SELECT 1 FROM plugins WHERE id = $1) \
     ON CONFLICT (id) DO UPDATE SET source = excluded.source, url = excluded.url, \
         module_sha256 = excluded.module_sha256, manifest_sha256 = excluded.manifest_sha256, \
         pinned = excluded.pinned, manifest = excluded.manifest, requested = excluded.requested, \
         granted = excluded.granted, status = 'active', traps = 0, last_error = NULL, \
         installed_by = excluded.installed_by, loaded_at = excluded.loaded_at \
     WHERE plugins.status <> 'removing' AND ($12 IS NULL OR plugins.module_sha256 = $12 \
         AND plugins.manifest_sha256 = $13 AND plugins.granted = $14) RETURNING ",
    columns!()
);

/// Stores a version of a plugin, its module and its grants in one transaction, and removes modules that no plugin uses any
/// more. The plugin is active afterwards. `None`, and nothing is stored, when the plugin is being removed or its row is not
/// the one to replace.
pub async fn install(
    db: &Db,
    new: &NewPlugin<'_>,
    replaces: Replaces<'_>,
    now: Timestamp,
) -> Result<Option<PluginRow>, StoreError> {
    let (requested, granted) = (to_json_text(new.requested), to_json_text(new.granted));
    let old = match replaces {
        Replaces::Any => None,
        Replaces::Version(row) => Some(row),
    };
    on!(db, writer, |pool| {
        let mut tx = pool.begin().await?;
        if matches!(db, Db::Postgres(_)) {
            sqlx::query(LOCK_POSTGRES).execute(&mut *tx).await?;
        }
        let put = sqlx::query(PUT_MODULE).bind(new.module_sha256).bind(new.module).bind(now);
        put.execute(&mut *tx).await?;
        let put = sqlx::query_as(PUT)
            .bind(new.id)
            .bind(new.source)
            .bind(new.url)
            .bind(new.module_sha256)
            .bind(new.manifest_sha256)
            .bind(new.pinned)
            .bind(new.manifest)
            .bind(&requested)
            .bind(&granted)
            .bind(new.installed_by)
            .bind(now)
            .bind(old.map(|row| row.module_sha256.as_str()))
            .bind(old.map(|row| row.manifest_sha256.as_str()))
            .bind(old.map(|row| to_json_text(&row.granted)));
        let row: Option<PluginRow> = only_row(put.fetch_all(&mut *tx).await?);
        if row.is_some() {
            sqlx::query(REMOVE_UNUSED).execute(&mut *tx).await?;
            tx.commit().await?;
        }
        Ok(row)
    })
}

/// Replaces the grants of a plugin that still asks for the same. `None` when it is gone, being removed, or asks for
/// something else by now.
pub async fn set_granted(
    db: &Db,
    id: &str,
    requested: &[String],
    granted: &[String],
) -> Result<Option<PluginRow>, StoreError> {
    let sql = concat!(
        "UPDATE plugins SET granted = $3 WHERE id = $1 AND requested = $2 AND status <> 'removing' RETURNING ",
        columns!()
    );
    let (requested, granted) = (to_json_text(requested), to_json_text(granted));
    let rows = on!(db, writer, |pool| {
        sqlx::query_as(sql).bind(id).bind(&requested).bind(&granted).fetch_all(pool).await?
    });
    Ok(only_row(rows))
}

/// Makes a paused plugin active. `None` when it is gone or being removed; one that is active stays so.
pub async fn resume(db: &Db, id: &str) -> Result<Option<PluginRow>, StoreError> {
    let sql = concat!(
        "UPDATE plugins SET status = 'active', traps = 0, last_error = NULL \
         WHERE id = $1 AND status <> 'removing' RETURNING ",
        columns!()
    );
    Ok(only_row(on!(db, writer, |pool| sqlx::query_as(sql).bind(id).fetch_all(pool).await?)))
}

/// Marks a plugin as being removed. `None` when there is none, or when it is marked already.
pub async fn begin_removal(db: &Db, id: &str) -> Result<Option<PluginRow>, StoreError> {
    let sql = concat!(
        "UPDATE plugins SET status = 'removing' WHERE id = $1 AND status <> 'removing' RETURNING ",
        columns!()
    );
    Ok(only_row(on!(db, writer, |pool| sqlx::query_as(sql).bind(id).fetch_all(pool).await?)))
}

/// The ids of the plugins that are being removed.
pub async fn removing(db: &Db) -> Result<Vec<String>, StoreError> {
    let sql = "SELECT id FROM plugins WHERE status = 'removing' ORDER BY id";
    Ok(on!(db, reader, |pool| sqlx::query_scalar(sql).fetch_all(pool).await)?)
}

/// Removes a plugin that is marked as being removed, with its values, sign-ins and module, once it has no accounts any
/// more. `false` when it still has some. Its secrets stay, for a reinstall.
pub async fn finish_removal(db: &Db, id: &str) -> Result<bool, StoreError> {
    let plugin = "DELETE FROM plugins WHERE id = $1 AND status = 'removing' \
                  AND NOT EXISTS (SELECT 1 FROM external_accounts WHERE plugin_id = $1)";
    let values = "DELETE FROM plugin_values WHERE plugin_id = $1";
    let states = "DELETE FROM external_auth_states WHERE plugin_id = $1";
    on!(db, writer, |pool| {
        let mut tx = pool.begin().await?;
        if matches!(db, Db::Postgres(_)) {
            sqlx::query(LOCK_POSTGRES).execute(&mut *tx).await?;
        }
        let removed = sqlx::query(plugin).bind(id).execute(&mut *tx).await?.rows_affected() > 0;
        if removed {
            for sql in [values, states] {
                sqlx::query(sql).bind(id).execute(&mut *tx).await?;
            }
            sqlx::query(REMOVE_UNUSED).execute(&mut *tx).await?;
            tx.commit().await?;
        }
        Ok(removed)
    })
}

/// Removes values of plugins that are not installed: a call that was running while its plugin was removed may have stored
/// some. Returns how many.
pub async fn remove_stray_values(db: &Db) -> Result<u64, StoreError> {
    let sql = "DELETE FROM plugin_values WHERE plugin_id IN \
               (SELECT plugin_id FROM plugin_values EXCEPT SELECT id FROM plugins)";
    Ok(on!(db, writer, |pool| sqlx::query(sql).execute(pool).await?.rows_affected()))
}

/// Removes all modules, for tests of other rooms.
#[cfg(any(test, feature = "testing"))]
pub async fn lose_modules(db: &Db) {
    let lost: Result<(), sqlx::Error> =
        on!(db, writer, |pool| sqlx::query("DELETE FROM plugin_files").execute(pool).await.map(drop));
    lost.expect("the database answers");
}
