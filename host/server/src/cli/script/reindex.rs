//! `belvedere script reindex`: runs the record scripts of a collection on the records that a server has stored.

use std::process::ExitCode;

use serde::{Deserialize, Serialize};

use super::super::job;
use super::super::remote::{Remote, Server};
use super::super::{print_line, print_stderr};
use belvedere_instance::config::Config;

/// The records that are chosen.
#[derive(Serialize)]
pub(super) struct Chosen<'a> {
    pub(super) collection: &'a str,
    pub(super) did: Option<&'a str>,
    pub(super) since: Option<&'a str>,
}

#[derive(Deserialize)]
struct Started {
    job_id: String,
}

/// With `wait` the progress is shown until the job has ended.
pub(super) async fn run(
    chosen: Chosen<'_>,
    server: &Server,
    wait: bool,
    config: &Config,
) -> anyhow::Result<ExitCode> {
    let remote = Remote::new(server, "scripts:manage and jobs:read", config)?;
    let Started { job_id } = remote.post("/admin/scripts/reindex", &chosen).await?;
    if !wait {
        // Only the id goes to standard output, so that a shell script can capture it.
        print_line(&job_id);
        return Ok(ExitCode::SUCCESS);
    }
    print_stderr(&format_args!("started the job {job_id}"));
    job::until_end(&remote, &job_id).await
}
