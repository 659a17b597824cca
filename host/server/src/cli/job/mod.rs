//! `belvedere job`: runs jobs of scripts on a running server.

mod run;

pub(super) use run::until_end;

use std::process::ExitCode;

use clap::Subcommand;

use belvedere_instance::config::Config;

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Start a job: run the script that is bound to job.run:TYPE
    Run(run::Command),
}

pub(super) async fn run(command: Command, config: &Config) -> anyhow::Result<ExitCode> {
    match command {
        Command::Run(command) => run::run(command, config).await,
    }
}
