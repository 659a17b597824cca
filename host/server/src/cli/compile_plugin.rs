//! `belvedere compile-plugin`: compiles a plugin's module for the server, which starts it as a process of its own.

use std::process::ExitCode;

use clap::Args;

use belvedere_scripting::plugins::{CompileLimits, compile_module};

#[derive(Debug, Args)]
pub(super) struct Command {
    /// Seconds of a processor that it may take
    #[arg(long)]
    max_seconds: u64,
    /// MiB of memory that it may take
    #[arg(long)]
    max_mib: u64,
    /// Process that it belongs to, and ends with
    #[arg(long)]
    parent: u32,
}

/// Runs without configuration, log and runtime: the limits are for the compiler alone.
pub(super) fn run(command: &Command) -> ExitCode {
    let limits = CompileLimits { seconds: command.max_seconds, memory_mib: command.max_mib };
    ExitCode::from(compile_module(limits, command.parent))
}
