//! `belvedere backup FILE`: copies the database while the server runs.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::bail;
use clap::Args;
use tokio::time::Instant;

use super::display::{Display, bar, grouped};
use super::instance_file::DatabaseLocation;
use super::{FAILED, existing, print_error, print_line, print_stderr};
use belvedere_instance::config::{Config, Database};
use belvedere_storage::store::{Db, backup};

/// The parts that a backup lacks.
const SECRETS: &str = "secrets in the copy are encrypted: keep TOKEN_ENCRYPTION_KEY and SESSION_SECRET (variables, or the \
    files of these names in DATA_DIR) somewhere else";

const MIB: u64 = 1 << 20;

#[derive(Debug, Args)]
pub(super) struct Command {
    /// The file to write; it must not exist. Scripts' own tables go to a second file beside it
    file: PathBuf,
}

pub(super) async fn run(command: Command, config: &Config) -> anyhow::Result<ExitCode> {
    let database = existing::choose(config)?;
    if database.is_postgres() {
        return explain_postgres(&command, &database);
    }
    if !Db::exists(&database.url)? {
        bail!(
            "there is no database at {}. Set DATA_DIR or DATABASE_URL as for the server, or run the command in the \
             server's folder",
            DatabaseLocation::of(&database)?.url
        );
    }
    let mut display = Display::new(Instant::now());
    let report = |written: u64, total: u64| {
        let line =
            format!("{}  {}/{} MiB", bar(written, total), grouped(written / MIB), grouped(total / MIB));
        display.show(&line, total);
    };
    let copied = backup::run(&database.url, &command.file, report).await;
    display.end();
    for file in copied? {
        print_line(&format_args!("{}: {} bytes", file.path.display(), grouped(file.bytes)));
    }
    print_error(&SECRETS);
    Ok(ExitCode::SUCCESS)
}

/// Prints the command that makes the backup. Fails, so that a cron job does not take it for done.
fn explain_postgres(command: &Command, database: &Database) -> anyhow::Result<ExitCode> {
    let DatabaseLocation { url, lacks_password, .. } = DatabaseLocation::of(database)?;
    let quoted = |text: &str| format!("'{}'", text.replace('\'', "'\\''"));
    let file = quoted(&command.file.display().to_string());
    print_line(&format_args!("pg_dump --format=custom --file={file} {}", quoted(&url)));
    let password = if lacks_password { " (the password in PGPASSWORD or ~/.pgpass)" } else { "" };
    print_error(&format_args!(
        "no backup was made: PostgreSQL has its own tool, which works while servers run. Use the command above{password}, \
         and pg_dumpall --roles-only for the role of scripts' SQL; pg_restore restores it"
    ));
    print_stderr(&SECRETS);
    Ok(ExitCode::from(FAILED))
}
