//! `belvedere script`: checks scripts, and copies them between files and a server.
//!
//! A folder of scripts contains one file for each script. Its path is the trigger with `/` instead of `:`, for example
//! `xrpc.query/com.example.listNotes.lua`. `check` needs no server; `push` and `pull` call a server's admin API with an
//! admin API key.

mod annotations;
mod check;
mod files;
mod init;
mod order;
mod places;
mod profile;
mod pull;
mod push;
mod reindex;
mod remote;
mod replay;
mod rollback;
mod rollout;
mod tail;
mod test;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Subcommand;

use super::push_options::PushOptions;
use super::remote::{OptionalServer, Server};
use super::status;
use belvedere_instance::config::Config;
pub(super) use places::Places;
pub(super) use pull::run as pull;
pub(super) use push::{LoadedFolder, bodies, read};
pub(super) use test::passes;

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Load scripts as the server would, and print errors with file and line
    Check {
        /// Lua files, or folders of them
        #[arg(required = true, value_name = "FILE or DIR")]
        paths: Vec<PathBuf>,
    },
    /// Try a script on a server, which changes nothing, and print its instructions, host calls, rows and waiting time by line
    Profile(Box<profile::Options>),
    /// Store the scripts of a folder on a server
    Push {
        /// A folder of scripts: DIR/xrpc.query/com.example.listNotes.lua is bound to that trigger
        dir: PathBuf,
        #[command(flatten)]
        server: Server,
        #[command(flatten)]
        options: PushOptions,
    },
    /// Run the record scripts of a collection on the stored records, as a job of the server
    Reindex {
        /// The collection, of which record.create or record.index has a script
        #[arg(value_name = "NSID")]
        collection: String,
        /// Only the records of this account, a DID or a handle
        #[arg(long, value_name = "DID")]
        did: Option<String>,
        /// Only records that were indexed then or later, as RFC 3339
        #[arg(long, value_name = "TIME")]
        since: Option<String>,
        /// Show the progress until the job has ended, then print what it did as JSON, with exit status 0 if it completed and 1 if
        /// it failed or was cancelled; without it the command prints the job's id and returns at once
        #[arg(long)]
        wait: bool,
        #[command(flatten)]
        server: Server,
    },
    /// Store a body again that a script has had, also of a deleted script
    Rollback {
        /// The script, as xrpc.query:com.example.listNotes
        #[arg(value_name = "TRIGGER")]
        trigger: String,
        /// The revision whose body it is [default: the one before the last]
        #[arg(long, value_name = "REVISION")]
        to: Option<u32>,
        #[command(flatten)]
        server: Server,
    },
    /// Record runs of a server's script, without secrets, to replay them
    Record(replay::RecordOptions),
    /// Run a body on the recorded runs of a server's script, without effects, and show what differs; exit status 0: nothing, 1: something
    Replay(replay::ReplayOptions),
    /// Let a part of a script's callers run another body, compare both, and save or return it
    Rollout(Box<rollout::Options>),
    /// Print the log lines and failures of a server's scripts as they occur
    Tail(Box<tail::Options>),
    /// Run the tests of a folder of scripts, without a server and without a network; exit status 0: passed, 1: failed, 2: not run
    Test(test::Options),
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

impl Command {
    /// Whether the log lines of the application would hide what the command prints.
    pub(super) fn is_quiet(&self) -> bool {
        matches!(self, Self::Test(_))
    }
}

pub(super) async fn run(command: Command, config: &Config) -> anyhow::Result<ExitCode> {
    match command {
        Command::Check { paths } => check::run(&paths, config).await,
        Command::Push { dir, server, options } => push::run(&dir, &server, options, config).await.map(status),
        Command::Profile(options) => profile::run(&options, config).await,
        Command::Reindex { collection, did, since, wait, server } => {
            let chosen =
                reindex::Chosen { collection: &collection, did: did.as_deref(), since: since.as_deref() };
            reindex::run(chosen, &server, wait, config).await
        }
        Command::Rollback { trigger, to, server } => rollback::run(&trigger, to, &server, config).await,
        Command::Record(options) => replay::record(&options, config).await,
        Command::Replay(options) => replay::replay(&options, config).await,
        Command::Rollout(options) => rollout::run(&options, config).await,
        Command::Tail(options) => tail::run(&options, config).await,
        Command::Test(options) => Ok(test::run(&options, config).await),
        Command::Init { dir, server } => init::run(&dir, server.given().as_ref(), config).await,
        Command::Pull { dir, server } => pull::run(&dir, &server, config).await,
    }
}
