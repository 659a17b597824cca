//! `belvedere job run`: starts a job, and waits for its end if it should.

use std::fs;
use std::io::Read as _;
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::time::Instant;

use super::super::display::Display;
use super::super::remote::{Remote, Server};
use super::super::{FAILED, follow, print_line, print_stderr};
use belvedere_instance::config::Config;
use belvedere_storage::store::status::{JobStatus, Status as _};

#[derive(Args, Debug)]
pub(in crate::cli) struct Command {
    /// The name after job.run: of the script that runs
    #[arg(value_name = "TYPE")]
    job_type: String,
    /// The script's job.input, as JSON: a text, a file as @FILE, or @- for standard input [default: {}]
    #[arg(long, value_name = "JSON or @FILE")]
    input: Option<String>,
    /// Show the progress until the job has ended, then print its result as JSON, with exit status 0 if it completed and 1
    /// if it failed or was cancelled; without it the command prints the job's id and returns at once
    #[arg(long)]
    wait: bool,
    #[command(flatten)]
    server: Server,
}

#[derive(Serialize)]
struct NewJob<'a> {
    r#type: &'a str,
    input: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
struct Job {
    id: String,
    status: JobStatus,
    progress: Box<RawValue>,
    result: Option<Box<RawValue>>,
    error: Option<String>,
}

pub(super) async fn run(command: Command, config: &Config) -> anyhow::Result<ExitCode> {
    let input = command.input.as_deref().map(read_input).transpose()?;
    let remote = Remote::new(&command.server, "jobs:create and jobs:read", config)?;
    let job: Job = remote.post("/admin/jobs", &NewJob { r#type: &command.job_type, input }).await?;
    if !command.wait {
        // Only the id goes to standard output, so that a shell script can capture it.
        print_line(&job.id);
        return Ok(ExitCode::SUCCESS);
    }
    print_stderr(&format_args!("started the job {}", job.id));
    until_end(&remote, &job.id).await
}

/// The JSON of `--input`.
fn read_input(text: &str) -> anyhow::Result<Box<RawValue>> {
    let read = match text.strip_prefix('@') {
        None => text.to_owned(),
        Some("-") => {
            let mut read = String::new();
            std::io::stdin().read_to_string(&mut read).context("standard input can't be read")?;
            read
        }
        Some(path) => fs::read_to_string(path).with_context(|| format!("{path} can't be read"))?,
    };
    serde_json::from_str(&read).context("--input is not JSON")
}

/// Shows the progress of a job until it has ended, then prints its result as JSON.
///
/// # Errors
/// The job's, when it failed.
pub(in crate::cli) async fn until_end(remote: &Remote, id: &str) -> anyhow::Result<ExitCode> {
    let path = format!("/admin/jobs/{id}");
    let started = Instant::now();
    let mut display = Display::new(started);
    let ended = follow::until_end(
        async || remote.get::<Job>(&path).await,
        |job| {
            if !job.status.has_ended() {
                let line = format!("{} {}, {} s", job.status, job.progress, started.elapsed().as_secs());
                display.show(&line, (job.status, job.progress.get().to_owned()));
            }
            job.status.has_ended()
        },
    )
    .await;
    display.end();
    let job = ended.with_context(|| format!("the job {id} may still be running"))?;
    print_stderr(&format_args!("{}, in {:.1} s", job.status, started.elapsed().as_secs_f64()));
    if let Some(error) = &job.error {
        bail!("{error}");
    }
    if job.status != JobStatus::Completed {
        return Ok(ExitCode::from(FAILED));
    }
    print_line(&job.result.as_deref().map_or("null", RawValue::get));
    Ok(ExitCode::SUCCESS)
}
