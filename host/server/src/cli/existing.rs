//! Opens the database of an existing instance, for commands that must not create one: a key that is stored in a new
//! database opens nothing.

use anyhow::{Context as _, bail};

use super::instance_file::{DatabaseLocation, InstanceFile};
use super::print_error;
use crate::app::resources;
use belvedere_instance::config::{Config, Database};
use belvedere_storage::store::Db;
use belvedere_storage::store::script_sql::role::ScriptRole;

/// Chooses the database: `DATABASE_URL`, otherwise the one that the server with this data folder runs on, otherwise the
/// default.
///
/// # Errors
/// When the server's database has a password: it is stored nowhere.
pub(super) fn choose(config: &Config) -> anyhow::Result<Database> {
    let database = config.database.clone();
    if !database.is_default {
        return Ok(database);
    }
    let Some(instance) = InstanceFile::read(config) else { return Ok(database) };
    let DatabaseLocation { url, lacks_password, .. } = instance.database;
    if url == DatabaseLocation::of(&database)?.url {
        return Ok(database);
    }
    let path = InstanceFile::path(config);
    if lacks_password {
        bail!(
            "the server with this data folder runs on {url} ({}). Set DATABASE_URL to it, with its password",
            path.display()
        );
    }
    Ok(database.moved_to(url))
}

/// Opens the database of [`choose`]. It must exist, with all migrations applied.
///
/// # Errors
/// Names the database that was looked for, and what to set.
pub(super) async fn open(config: &Config) -> anyhow::Result<Db> {
    let database = choose(config)?;
    let location = DatabaseLocation::of(&database)?.url;
    if !Db::exists(&database.url)? {
        bail!(
            "there is no database at {location}, and this command creates none. Set DATA_DIR or DATABASE_URL as for the \
             server, or run the command in the server's folder; for a new instance, start the server or run belvedere migrate \
             first"
        );
    }
    // The role of scripts' SQL is the server's business.
    let db = Db::open_with(&database.url, resources(&database), &ScriptRole::Guarded)
        .await
        .with_context(|| format!("the database {location} can't be opened; check DATABASE_URL"))?;
    let pending = db.pending_migrations().await?;
    if pending > 0 {
        db.close().await;
        if pending == Db::all_migrations(&database.url) {
            bail!(
                "the database {location} is not an instance's yet. Check DATABASE_URL; for a new instance, start the server or \
                 run belvedere migrate first"
            );
        }
        bail!(
            "the database {location} belongs to an older version: {pending} migrations are not applied. Start the server, or \
             run belvedere migrate, first"
        );
    }
    print_error(&format_args!("using the database {location}"));
    Ok(db)
}
