//! `belvedere view explain`: shows the reads of a view, with their indexes.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Subcommand;
use serde::Deserialize;
use serde_json::json;

use super::print_line;
use super::remote::{Remote, Server};
use belvedere_instance::config::Config;

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Print the reads of a view on a server: how many rows each returns at most, and the indexes that it uses
    Explain {
        /// The NSID of the method
        nsid: String,
        /// A file with a view that is not stored yet
        #[arg(long, value_name = "FILE")]
        file: Option<PathBuf>,
        #[command(flatten)]
        server: Server,
    },
}

#[derive(Deserialize)]
struct Explanation {
    steps: Vec<Step>,
}

#[derive(Deserialize)]
struct Step {
    name: String,
    reads: String,
    indexes: Vec<String>,
    rows: u32,
    statements: u32,
}

pub(super) async fn run(command: Command, config: &Config) -> anyhow::Result<ExitCode> {
    let Command::Explain { nsid, file, server } = command;
    let body = file.map(std::fs::read_to_string).transpose()?;
    let remote = Remote::new(&server, "scripts:manage", config)?;
    let mut request = json!({ "id": format!("xrpc.view:{nsid}") });
    if let Some(body) = body {
        request["body"] = body.into();
    }
    let Explanation { steps } = remote.post("/admin/scripts/explain", &request).await?;
    for Step { name, reads, indexes, rows, statements } in steps {
        print_line(&format_args!("{name}: {reads}"));
        print_line(&format_args!("    at most {rows} rows by {statements} statements"));
        for index in indexes {
            print_line(&format_args!("    index: {index}"));
        }
    }
    Ok(ExitCode::SUCCESS)
}
