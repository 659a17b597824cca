//! `belvedere script`: checks scripts, and copies them between files and a server.
//!
//! A folder of scripts contains one file for each script. Its path is the trigger with `/` instead of `:`, for example
//! `xrpc.query/com.example.listNotes.lua`. `check` needs no server; `push` and `pull` call a server's admin API with an
//! admin API key.

mod annotations;
mod check;
mod files;
mod init;
mod pull;
mod push;
mod remote;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Subcommand;

use super::remote::{OptionalServer, Server};
use belvedere_instance::config::Config;

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Load scripts as the server would, and print errors with file and line
    Check {
        /// Lua files, or folders of them
        #[arg(required = true, value_name = "FILE or DIR")]
        paths: Vec<PathBuf>,
    },
    /// Store the scripts of a folder on a server
    Push {
        /// A folder of scripts: DIR/xrpc.query/com.example.listNotes.lua is bound to that trigger
        dir: PathBuf,
        #[command(flatten)]
        server: Server,
        /// Delete the server's scripts that have no file
        #[arg(long)]
        delete: bool,
        /// Print what would be done, without doing it
        #[arg(long)]
        dry_run: bool,
    },
    /// Write type annotations and editor settings into a folder of scripts, with the functions of a server's plugins
    Init {
        /// The folder; created if it does not exist
        #[arg(default_value = ".")]
        dir: PathBuf,
        #[command(flatten)]
        server: OptionalServer,
    },
    /// Write a server's scripts into a folder, and its plugins into the folder's type annotations
    Pull {
        /// The folder; created if it does not exist
        dir: PathBuf,
        #[command(flatten)]
        server: Server,
    },
}

pub(super) async fn run(command: Command, config: &Config) -> anyhow::Result<ExitCode> {
    match command {
        Command::Check { paths } => check::run(&paths, config).await,
        Command::Push { dir, server, delete, dry_run } => {
            push::run(&dir, &server, push::PushOptions { delete, dry_run }, config).await
        }
        Command::Init { dir, server } => init::run(&dir, server.given().as_ref(), config).await,
        Command::Pull { dir, server } => pull::run(&dir, &server, config).await,
    }
}
