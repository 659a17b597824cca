//! `belvedere migrate`: for deployments that migrate before they start the new version.

use std::process::ExitCode;

use anyhow::Context as _;

use super::say;
use crate::config::Config;
use crate::store::Db;

pub(super) async fn run(config: &Config) -> anyhow::Result<ExitCode> {
    let shown = config.database.shown();
    let db = Db::open(&config.database.url, config.database.max_connections)
        .await
        .with_context(|| format!("{shown} can't be opened"))?;
    let pending = db.pending_migrations().await?;
    if pending > 0 {
        db.migrate().await?;
    }
    say(&format_args!("{shown}: {pending} migrations applied"));
    db.close().await;
    Ok(ExitCode::SUCCESS)
}
