//! `belvedere plugin`: writes new plugins, makes components of their modules, and checks them as a server would. Needs no
//! server.

mod check;
mod new;
mod pack;
mod template;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Subcommand, ValueEnum};

use belvedere_instance::config::Config;

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Write a new plugin in Rust into a folder of its name
    New {
        /// The plugin's id: lower-case letters, digits and hyphens
        name: String,
        /// The kind of plugin
        #[arg(long, value_enum, default_value_t = Kind::Sync)]
        kind: Kind,
    },
    /// Make a component of the module that a compiler wrote
    Pack {
        /// The module, such as target/wasm32-unknown-unknown/release/NAME.wasm
        module: PathBuf,
        /// The component
        #[arg(short, long, default_value = "plugin.wasm")]
        out: PathBuf,
    },
    /// Check a plugin as a server does when it is installed, and print what it asks for
    Check {
        /// The folder of its manifest.json
        #[arg(default_value = ".")]
        folder: PathBuf,
    },
}

/// The kind of a plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Kind {
    /// Link accounts, with a sign-in page
    Account,
    /// Link accounts, and write records from them
    Sync,
    /// Offer functions to scripts
    Library,
}

pub(super) async fn run(command: Command, config: &Config) -> anyhow::Result<ExitCode> {
    match command {
        Command::New { name, kind } => new::run(&name, kind),
        Command::Pack { module, out } => pack::run(&module, &out),
        Command::Check { folder } => check::run(&folder, config).await,
    }
}
