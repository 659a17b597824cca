//! `belvedere backfill`: starts a backfill on a running server, and shows its progress.

mod plan;
mod progress;
mod watch;

use std::process::ExitCode;

use clap::Args;
use serde::Deserialize;
use serde_json::json;

use super::print_line;
use super::remote::{Remote, Server};
use belvedere_instance::config::Config;

#[derive(Args, Debug)]
pub(super) struct Command {
    /// The collection to read [default: every collection that has a record lexicon]
    collection: Option<String>,
    /// The account whose repo to read, as a DID or a handle [default: every repo that the relay lists]
    #[arg(long, value_name = "DID")]
    did: Option<String>,
    /// The most repos that the backfill may have: twice what `--plan` says, for example [default: `backfill_max_repos`]
    // The setting of the server has the id of the field.
    #[arg(id = "max_repos_of_job", long = "max-repos", value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_repos: Option<u32>,
    /// Show what the backfill is expected to cost, and start nothing
    #[arg(long, conflicts_with = "watch")]
    plan: bool,
    /// Show the progress until the backfill has ended, with exit status 0 if everything was read, 3 if some repos could not
    /// be, and 1 if the backfill failed, was cancelled or did not find all repos; without it the command returns at once
    #[arg(long)]
    watch: bool,
    #[command(flatten)]
    server: Server,
}

#[derive(Deserialize)]
struct Created {
    id: String,
}

pub(super) async fn run(command: Command, config: &Config) -> anyhow::Result<ExitCode> {
    let remote = Remote::new(&command.server, "backfill:create and backfill:read", config)?;
    if command.plan {
        return plan::show(&remote, command.collection.as_deref(), command.did.as_deref()).await;
    }
    let body =
        json!({ "collection": command.collection, "did": command.did, "max_repos": command.max_repos });
    let Created { id } = remote.post("/admin/backfill", &body).await?;
    // Only the id goes to standard output, so that a shell script can capture it.
    print_line(&id);
    if command.watch { watch::until_end(&remote, &id).await } else { Ok(ExitCode::SUCCESS) }
}
