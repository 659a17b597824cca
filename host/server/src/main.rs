//! The `belvedere` binary: parses the command line and runs the command.

use std::process::ExitCode;

use belvedere::{COMPILE_COMMAND, Cli, install_tls_provider};
use clap::Parser as _;

fn main() -> ExitCode {
    // The compiler of plugins reads modules of others, and has no use for the secrets of a `.env` in its folder.
    let is_compiler = std::env::args_os().nth(1).is_some_and(|command| command == COMPILE_COMMAND);
    if !is_compiler {
        // Usually there is no `.env` file. Errors are ignored: a malformed file shows up as missing values.
        let _ = dotenvy::dotenv();
    }
    install_tls_provider();
    Cli::parse().run()
}
