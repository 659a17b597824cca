//! `belvedere move --to URL`: copies everything into a database of the other kind.

use std::process::ExitCode;

use anyhow::bail;
use clap::Args;
use tokio::time::Instant;

use super::display::{Display, bar, grouped};
use super::instance_file::DatabaseLocation;
use super::{existing, print_error, print_line};
use crate::app::{existing_script_access, resources};
use belvedere_base::clock::Clock;
use belvedere_instance::config::Config;
use belvedere_storage::store::fields::advice;
use belvedere_storage::store::script_sql::role::ScriptRole;
use belvedere_storage::store::server_lock::ServerLock;
use belvedere_storage::store::transfer::{self, Progress, Target};

#[derive(Debug, Args)]
pub(super) struct Command {
    /// The database to fill: a new SQLite file (sqlite://PATH), or a new PostgreSQL database (postgres://…)
    #[arg(long, value_name = "URL", env = "BELVEDERE_MOVE_TO", hide_env_values = true)]
    to: String,
}

pub(super) async fn run(command: Command, config: &Config) -> anyhow::Result<ExitCode> {
    let source = existing::choose(config)?;
    // Explains what is wrong with the source.
    existing::open(config).await?.close().await;
    // Held until the end: no server may write what was read already, or use what is not complete.
    let _source = ServerLock::take(&source.url)?;
    let target = source.clone().moved_to(command.to);
    if !target.is_postgres() && !target.url.starts_with("sqlite:") {
        bail!("--to must be sqlite://PATH or postgres://USER:PASSWORD@HOST/NAME");
    }
    let _target = ServerLock::take(&target.url)?;
    let role = existing_script_access(&config.secrets, &target)?.unwrap_or(ScriptRole::Guarded);
    let clock = Clock::system();
    let started = Instant::now();
    let mut display = Display::new(started);
    let report = |progress: &Progress| display.show(&line(progress), progress.stage);
    let to = Target { url: &target.url, resources: resources(&target), role: &role };
    let moved = transfer::run(&source.url, to, report, async |db| advice::rebuild(db, &clock).await).await;
    display.end();
    let moved = moved?;
    for (table, sum) in &moved.tables {
        print_line(&format_args!("{:>14}  {sum}  {table}", grouped(sum.rows)));
    }
    let rows = moved.tables.iter().map(|(_, sum)| sum.rows).sum();
    print_line(&format_args!(
        "{} rows of {} tables, with the same checksums in both databases, in {:.1} s",
        grouped(rows),
        moved.tables.len(),
        started.elapsed().as_secs_f64()
    ));
    if moved.replaced > 0 {
        print_error(&format_args!(
            "U+0000, which PostgreSQL can't store, became U+FFFD in {} values",
            grouped(moved.replaced)
        ));
    }
    for notice in &moved.notices {
        print_error(notice);
    }
    print_error(&format_args!(
        "start the server with DATABASE_URL={} and the same secrets; the source is unchanged",
        DatabaseLocation::of(&target)?.url
    ));
    Ok(ExitCode::SUCCESS)
}

fn line(progress: &Progress) -> String {
    let Progress { stage, table, done, total } = progress;
    format!("{}  {stage} {table}", bar(*done, *total))
}
