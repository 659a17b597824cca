//! `belvedere migrate`: migrates the database, for deployments that do so before they start a new version.

use std::process::ExitCode;

use anyhow::Context as _;

use super::print_line;
use crate::app::{existing_script_access, resources};
use belvedere_instance::config::Config;
use belvedere_storage::store::Db;
use belvedere_storage::store::script_sql::role::ScriptRole;
use belvedere_storage::store::script_sql::{self, ScriptIsolation};

pub(super) async fn run(config: &Config) -> anyhow::Result<ExitCode> {
    let shown = config.database.redacted_url();
    let access = existing_script_access(&config.secrets, &config.database)?;
    let role = access.as_ref().unwrap_or(&ScriptRole::Guarded);
    let db = Db::open_with(&config.database.url, resources(&config.database), role)
        .await
        .with_context(|| format!("{shown} can't be opened"))?;
    let pending = db.pending_migrations().await?;
    if pending > 0 {
        db.migrate().await?;
    } else {
        db.prepare_script_role().await;
    }
    print_line(&format_args!("{shown}: {pending} migrations applied"));
    match script_sql::isolation(&db).await {
        Ok(ScriptIsolation::Sqlite) => {}
        Ok(_) if access.is_none() => print_line(
            &"the first start of the server generates TOKEN_ENCRYPTION_KEY and creates the role of scripts' SQL",
        ),
        Ok(ScriptIsolation::Guard) => {
            print_line(&format_args!("scripts' SQL runs under the server's role (SCRIPT_SQL=guarded)"));
        }
        Ok(ScriptIsolation::GuardAndRole { name, .. }) => {
            print_line(&format_args!("scripts' SQL runs under the role {name}"));
        }
        // Only db.raw is affected, so the migration still succeeds.
        Err(error) => print_line(&format_args!("{error}")),
    }
    db.close().await;
    Ok(ExitCode::SUCCESS)
}
