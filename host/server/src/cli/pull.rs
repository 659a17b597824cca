//! `belvedere pull`: writes the app of a server into a folder.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use super::app_folder::AppFolder;
use super::remote::Server;
use super::{lexicon, script};
use belvedere_instance::config::Config;

#[derive(Args, Debug)]
pub(super) struct Command {
    /// The folder of the app; created if it does not exist
    #[arg(value_name = "APP")]
    dir: PathBuf,
    #[command(flatten)]
    server: Server,
}

pub(super) async fn run(command: Command, config: &Config) -> anyhow::Result<ExitCode> {
    let app = AppFolder(command.dir);
    let (lexicons, scripts) = app.to_write();
    let settings = lexicon::pull(&lexicons, &command.server, config).await?;
    app.write_settings(settings)?;
    script::pull(&scripts, &command.server, config).await
}
