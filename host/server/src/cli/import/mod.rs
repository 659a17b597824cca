//! `belvedere import`: takes over the instance of another product.

mod happyview;

use std::process::ExitCode;

use clap::Subcommand;

use belvedere_instance::config::Config;

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Copy a HappyView instance from its database to a running server: lexicons, scripts, variables, clients with their keys, users, labelers, domains, settings
    Happyview(happyview::Options),
}

pub(super) async fn run(command: Command, config: &Config) -> anyhow::Result<ExitCode> {
    match command {
        Command::Happyview(options) => Box::pin(happyview::run(&options, config)).await,
    }
}
