//! The `belvedere` binary: parses the command line and runs the command.

use std::process::ExitCode;

use belvedere::{Cli, install_tls_provider};
use clap::Parser as _;

fn main() -> ExitCode {
    // Usually there is no `.env` file. Errors are ignored: a malformed file shows up as missing values.
    let _ = dotenvy::dotenv();
    install_tls_provider();
    Cli::parse().run()
}
