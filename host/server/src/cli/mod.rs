//! Defines and runs the command line: serve, dev, migrate, doctor, admin, push, pull, lexicon, script, view, plugin, job, backfill, verify, diff, backup, move, shards, import, guest.
//!
//! Exit codes: 0 success, 1 failure, 2 an invalid command line or configuration, for which a retry does not help
//! (systemd's `RestartPreventExitStatus=2`). `verify`, `diff` and `lexicon diff` have their own.

mod admin;
mod app_folder;
mod backfill;
mod backup;
mod compile_plugin;
mod dev;
mod diff;
mod display;
mod doctor;
mod existing;
mod folder;
mod follow;
mod guest;
mod import;
mod instance_file;
mod job;
mod lexicon;
mod logging;
mod migrate;
mod move_to;
mod plugin;
mod pull;
mod push;
mod push_options;
mod push_request;
mod remote;
mod request_lines;
mod script;
mod serve;
mod shards;
mod stand_in_pds;
mod tail;
mod verify;
mod view;

use std::io::Write as _;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use belvedere_instance::config::{self, Config};

const FAILED: u8 = 1;
const MISCONFIGURED: u8 = 2;
/// The exit status of a comparison or of tests that could not be done, where [`FAILED`] is their result.
const NOT_DONE: u8 = 2;

/// The log filter of commands that print what they have to say.
const QUIET: &str = "error";

/// The exit status of a command that did everything, or not.
fn status(is_done: bool) -> ExitCode {
    if is_done { ExitCode::SUCCESS } else { ExitCode::from(FAILED) }
}

/// Tokio's event interval: a busy worker polls its sockets after every task. Tokio's default of 61 suits tasks of
/// microseconds, but a script runs for a tenth of a millisecond or two at a time, and a request would wait for several
/// of them at each of its steps. The cost for lists and scripts is within the noise of the measurements
/// (docs/performance.md).
pub(crate) const EVENT_INTERVAL: u32 = 1;

/// Belvedere, an atproto AppView server: lexicons in, indexed collections and scripted XRPC out.
///
/// Every option can be given as the environment variable named beside it, or in a file called .env.
#[derive(Debug, Parser)]
#[command(name = "belvedere", version, max_term_width = 120)]
pub struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    args: config::Args,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the server (the default)
    Serve,
    /// Run a server for the app in a folder, without a network: stand-ins for PDS, PLC directory and stream, reloads what is edited
    Dev(dev::Options),
    /// Migrate the database's schema and exit
    Migrate,
    /// Check configuration, database, script engine and network, and print what to do about problems
    Doctor,
    /// Manage users and keys without a browser
    #[command(subcommand)]
    Admin(admin::Command),
    /// Test an app, show what would change, and store its lexicons, scripts and views on a server as one version
    Push(push::Command),
    /// Write the lexicons, scripts and views of a server into the folder of an app
    Pull(pull::Command),
    /// Check lexicons, and copy folders of them to and from a server
    #[command(subcommand)]
    Lexicon(lexicon::Command),
    /// Check scripts, and copy them between files and a server
    #[command(subcommand)]
    Script(script::Command),
    /// Show the reads of a view
    #[command(subcommand)]
    View(view::Command),
    /// Write, pack and check plugins
    #[command(subcommand)]
    Plugin(plugin::Command),
    /// Run jobs of scripts on a running server
    #[command(subcommand)]
    Job(job::Command),
    /// Print the messages of a subscription of a running server, one JSON object a line, and connect again when the server restarts
    Tail(tail::Command),
    /// Start a backfill on a running server: read the history of a collection from the network
    Backfill(backfill::Command),
    /// Compare the index with the PDSs; exit status 0: equal, 1: different, 2: could not be compared
    Verify(verify::Command),
    /// Print how two instances differ in lexicons, scripts, views and settings; exit status 0: equal, 1: different, 2: not compared
    Diff(diff::Command),
    /// Copy the database into a file, while the server runs
    Backup(backup::Command),
    /// Copy everything from the database into one of the other kind: from SQLite to PostgreSQL, or back
    Move(move_to::Command),
    /// Show where the shards of a database on a Citus cluster are
    Shards(shards::Options),
    /// Take over the instance of another product
    #[command(subcommand)]
    Import(import::Command),
    /// Precompile the script engine
    #[command(subcommand)]
    Guest(guest::Command),
    /// Compile the module of a plugin from standard input; the server runs it
    #[command(hide = true)]
    CompilePlugin(compile_plugin::Command),
}

impl Cli {
    /// Runs the command.
    pub fn run(self) -> ExitCode {
        if let Some(Command::CompilePlugin(command)) = &self.command {
            return compile_plugin::run(command);
        }
        let mut args = self.args;
        let filter = match &self.command {
            Some(Command::Script(command)) if command.is_quiet() => Some(QUIET),
            // It runs the tests of scripts, too.
            Some(Command::Push(_)) => Some(QUIET),
            Some(Command::Dev(_)) => Some(dev::LOG_FILTER),
            _ => None,
        };
        if let Some(filter) = filter {
            args.observe.log_filter.get_or_insert_with(|| filter.to_owned());
        }
        let config = match args.check() {
            Ok(config) => config,
            Err(problems) => {
                print_error(&problems);
                return ExitCode::from(MISCONFIGURED);
            }
        };
        let is_dev = matches!(self.command, Some(Command::Dev(_)));
        let lines = if is_dev { logging::Lines::Short } else { logging::Lines::Full };
        let logs = logging::start(&config.observe, lines);
        let command = self.command.unwrap_or(Command::Serve);
        let code = match runtime() {
            Ok(runtime) => {
                let result = runtime.block_on(run(command, config));
                // Does not wait for blocking tasks that are still running, such as DNS look-ups.
                runtime.shutdown_background();
                result
            }
            Err(error) => Err(anyhow::Error::from(error).context("the runtime can't be started")),
        };
        let code = code.unwrap_or_else(|error| {
            print_error(&format_args!("{error:#}"));
            ExitCode::from(FAILED)
        });
        logs.flush();
        code
    }
}

fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread().event_interval(EVENT_INTERVAL).enable_all().build()
}

async fn run(command: Command, config: Config) -> anyhow::Result<ExitCode> {
    match command {
        Command::Serve => Box::pin(serve::run(config)).await,
        Command::Dev(options) => Box::pin(dev::run(&options, &config)).await,
        Command::Migrate => migrate::run(&config).await,
        Command::Doctor => doctor::run(&config).await,
        Command::Admin(command) => admin::run(command, &config).await,
        Command::Push(command) => push::run(command, &config).await,
        Command::Pull(command) => pull::run(command, &config).await,
        Command::Lexicon(command) => lexicon::run(command, &config).await,
        Command::Script(command) => script::run(command, &config).await,
        Command::View(command) => view::run(command, &config).await,
        Command::Plugin(command) => plugin::run(command, &config).await,
        Command::Job(command) => job::run(command, &config).await,
        Command::Tail(command) => tail::run(command, &config).await,
        Command::Backfill(command) => backfill::run(command, &config).await,
        Command::Verify(command) => Ok(verify::run(command, &config).await),
        Command::Diff(command) => Ok(diff::run(command, &config).await),
        Command::Backup(command) => backup::run(command, &config).await,
        Command::Move(command) => move_to::run(command, &config).await,
        Command::Shards(options) => shards::run(options, &config).await,
        Command::Import(command) => import::run(command, &config).await,
        Command::Guest(command) => guest::run(command, &config).await,
        Command::CompilePlugin(command) => Ok(compile_plugin::run(&command)),
    }
}

/// Writes a line to standard output. Ignores errors, such as a closed pipe.
fn print_line(text: &dyn std::fmt::Display) {
    let _ = writeln!(std::io::stdout(), "{text}");
}

/// Writes an error or a notice to standard error.
fn print_error(text: &dyn std::fmt::Display) {
    print_stderr(&format_args!("belvedere: {text}"));
}

/// Writes a line to standard error without a prefix, for messages that begin with FILE:LINE.
fn print_stderr(text: &dyn std::fmt::Display) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    /// clap gives both the same value, and panics where their types differ.
    #[test]
    fn no_command_has_an_argument_with_the_id_of_a_setting() {
        let all = Cli::command();
        let settings: Vec<_> = all.get_arguments().filter(|argument| argument.is_global_set()).collect();
        assert!(settings.len() > 50, "{settings:?}");
        let mut commands: Vec<_> = all.get_subcommands().collect();
        while let Some(command) = commands.pop() {
            for argument in command.get_arguments() {
                let of_setting = settings.iter().any(|setting| setting.get_id() == argument.get_id());
                assert!(!of_setting, "{}: {}", command.get_name(), argument.get_id());
            }
            commands.extend(command.get_subcommands());
        }
    }

    #[test]
    fn the_command_line_is_valid_and_help_names_every_variable() {
        Cli::command().debug_assert();
        let help = Cli::command().render_long_help().to_string();
        let documented = include_str!("../../../../docs/operations.md");
        let section = documented.split("\n## ").find(|section| section.starts_with("Settings\n")).unwrap();
        let rows = section.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
        // The secrets of plugins have names of their own.
        let variables: Vec<&str> = rows.filter(|name| !name.contains('<')).collect();
        assert!(variables.len() > 50, "{variables:?}");
        for variable in &variables {
            assert!(help.contains(&format!("[env: {variable}")), "{variable} is missing in --help");
        }
        for argument in Cli::command().get_arguments().filter(|argument| argument.is_global_set()) {
            let variable = argument.get_env().unwrap().to_str().unwrap();
            assert!(variables.contains(&variable), "{variable} is missing in docs/operations.md");
        }
    }

    #[test]
    fn options_may_stand_before_and_after_the_command() {
        for line in [["belvedere", "--port=5", "migrate"], ["belvedere", "migrate", "--port=5"]] {
            let cli = Cli::try_parse_from(line).unwrap();
            assert_eq!(cli.args.server.port.as_deref(), Some("5"));
            assert!(matches!(cli.command, Some(Command::Migrate)));
        }
        assert!(Cli::try_parse_from(["belvedere", "fly"]).is_err());
    }
}
