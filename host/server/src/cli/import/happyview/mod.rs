//! `belvedere import happyview`: reads the database of a HappyView instance, and sends what it has to the admin API of a server, which
//! checks each part as if an operator had entered it. A part that is refused is reported, and the others go on. A part that is there
//! already stays, so that a second run changes nothing.

mod part;
mod parts;
mod read;
mod report;
mod send;
mod there;

use std::process::ExitCode;

use anyhow::Context as _;
use clap::Args;

use self::read::Instance;
use self::report::Report;
use self::send::Sender;
use super::super::remote::{Remote, Server};
use super::super::{print_line, status};
use belvedere_instance::config::Config;
use belvedere_storage::store::foreign::ForeignDb;

#[derive(Args, Debug)]
pub(in crate::cli) struct Options {
    /// The database: the path of a SQLite file, or postgres://…; it is only read
    #[arg(value_name = "FILE or URL")]
    database: String,
    #[command(flatten)]
    server: Server,
    /// Print what would be copied, and what can't be, without copying it
    #[arg(long)]
    dry_run: bool,
    /// Replace what the server has already and that differs
    #[arg(long)]
    replace: bool,
    /// Start no backfills of new record lexicons
    #[arg(long)]
    no_backfill: bool,
}

/// Exit status 0: the server has everything that can be copied; 1: it refused a part, or has another one that stays.
pub(super) async fn run(options: &Options, config: &Config) -> anyhow::Result<ExitCode> {
    let mut db = ForeignDb::open(&options.database).await?;
    let read = Instance::read(&mut db).await;
    // The address may have a password.
    let instance = read.context("the database can't be read")?;
    db.close().await?;
    let parts = instance.parts(!options.no_backfill);
    let remote = Remote::new(&options.server, "the permissions of full_access", config)?;
    let mut sender = Sender::new(remote, &parts, options.replace, options.dry_run).await?;
    let mut report = Report::new(options.dry_run);
    for part in &parts {
        report.add(part, sender.send(part).await);
    }
    for left in &instance.left {
        print_line(&format_args!("not copied: {left}"));
    }
    report.print_summary();
    // A dry run has refused nothing.
    Ok(status(options.dry_run || report.is_complete()))
}
