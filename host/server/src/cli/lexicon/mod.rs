//! `belvedere lexicon`: checks lexicons, and copies them between files and a server.
//!
//! A folder of lexicons contains one file for each, at any depth: `com/example/thing.json`, or `com.example.thing.json`.
//! `check` needs no server; the others call a server's admin API with an admin API key.

mod check;
mod diff;
mod files;
mod lines;
mod pull;
mod push;
mod remote;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Subcommand;

use super::push_options::PushOptions;
use super::remote::Server;
use super::status;
use belvedere_instance::config::Config;
use belvedere_protocol::atproto::Nsid;
use belvedere_protocol::atproto::lexicon::{LexiconDoc, LexiconKind};
pub(super) use pull::run as pull;
pub(super) use push::{preview, print_saved};
pub(super) use remote::{Change, LexiconSettings, SavedLexicon, Upload};

/// A valid lexicon of a folder.
#[derive(Debug)]
pub(super) struct FolderLexicon {
    pub(super) id: Nsid,
    pub(super) kind: LexiconKind,
    pub(super) text: String,
}

/// The lexicons of a folder. Prints problems; `None` if there are any.
///
/// # Errors
/// When the folder or a file can't be read.
pub(super) fn read_folder(dir: &Path) -> anyhow::Result<Option<Vec<FolderLexicon>>> {
    let folder = files::read(&[dir.to_owned()])?;
    if check::report(&folder) > 0 {
        return Ok(None);
    }
    let first = folder.by_id().into_values().filter_map(|copies| copies.first().copied());
    let lexicon = |file: &files::LexiconFile| {
        let kind = LexiconDoc::parse(&file.document).ok()?.kind;
        Some(FolderLexicon { id: file.id.clone(), kind, text: file.text.clone() })
    };
    Ok(Some(first.filter_map(lexicon).collect()))
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Check lexicons as the server would, and print errors and warnings with file and line
    Check {
        /// JSON files, or folders of them
        #[arg(required = true, value_name = "FILE or DIR")]
        paths: Vec<PathBuf>,
    },
    /// Store the lexicons of a folder on a server, all or none. Settings of stored lexicons, such as target_collection, stay
    Push {
        /// A folder of lexicons: DIR/com/example/thing.json, or DIR/com.example.thing.json, at any depth
        dir: PathBuf,
        #[command(flatten)]
        server: Server,
        #[command(flatten)]
        options: PushOptions,
        /// Start no backfills of new record lexicons
        #[arg(long)]
        no_backfill: bool,
    },
    /// Print how the lexicons of a folder differ from those of a server; exit status 0: equal, 1: different, 2: not compared
    Diff {
        /// A folder of lexicons
        dir: PathBuf,
        #[command(flatten)]
        server: Server,
    },
    /// Write a server's lexicons into a folder, new ones as DIR/com/example/thing.json
    Pull {
        /// The folder; created if it does not exist
        dir: PathBuf,
        #[command(flatten)]
        server: Server,
    },
}

pub(super) async fn run(command: Command, config: &Config) -> anyhow::Result<ExitCode> {
    match command {
        Command::Check { paths } => check::run(&paths),
        Command::Push { dir, server, options, no_backfill } => {
            push::run(&dir, &server, options, !no_backfill, config).await.map(status)
        }
        Command::Diff { dir, server } => Ok(diff::run(&dir, &server, config).await),
        Command::Pull { dir, server } => pull::run(&dir, &server, config).await.map(|_| ExitCode::SUCCESS),
    }
}
