//! Parses the command line and hands over.

use std::process::ExitCode;

use belvedere::{cli::Cli, net};
use clap::Parser as _;

fn main() -> ExitCode {
    // A missing file is the usual case; a broken one shows in the values that are missing.
    let _ = dotenvy::dotenv();
    net::install_tls_provider();
    Cli::parse().run()
}
