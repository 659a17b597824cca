//! `belvedere guest prepare`: compiles the script engine's image ahead of time, in a container image for one.

use std::process::ExitCode;

use clap::Subcommand;

use super::say;
use crate::app::engine_config;
use crate::config::Config;
use crate::scripts;

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Compile the image and keep it under the data folder, so that the first start is as fast as the others
    Prepare,
}

pub(super) async fn run(command: Command, config: &Config) -> anyhow::Result<ExitCode> {
    match command {
        Command::Prepare => {
            let path = scripts::prepare(&engine_config(config).cache_dir).await?;
            say(&path.display());
            Ok(ExitCode::SUCCESS)
        }
    }
}
