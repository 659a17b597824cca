//! `belvedere guest prepare`: compiles the script engine ahead of time, for example while a container image is built.

use std::process::ExitCode;

use clap::Subcommand;

use super::print_line;
use crate::app::engine_config;
use belvedere_instance::config::Config;
use belvedere_scripting::scripts;

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Compile the script engine into the data folder, so that the first start is as fast as the others
    Prepare,
}

pub(super) async fn run(command: Command, config: &Config) -> anyhow::Result<ExitCode> {
    match command {
        Command::Prepare => {
            let path = scripts::prepare(&engine_config(config).cache_dir).await?;
            print_line(&path.display());
            Ok(ExitCode::SUCCESS)
        }
    }
}
