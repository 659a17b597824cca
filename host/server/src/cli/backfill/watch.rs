//! Follows a backfill until it has ended. Polls the list of jobs, so that it survives a restart of the server and a
//! change of the host that runs the job.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, bail};
use serde::Deserialize;
use tokio::time::Instant;

use super::super::display::{Display, grouped};
use super::super::remote::Remote;
use super::super::{FAILED, print_error, print_stderr};
use super::progress::{Job, Progress};
use belvedere_storage::store::status::{BackfillStatus, Status as _};

/// Exit status when the backfill has completed, and some repos could not be read.
const PARTLY_READ: u8 = 3;
/// Time between two looks at the job.
const PERIOD: Duration = Duration::from_secs(1);
/// Looks in a row that may fail: a server restarts within this many periods.
const MAX_FAILURES: u32 = 60;

pub(super) async fn until_end(remote: &Remote, id: &str) -> anyhow::Result<ExitCode> {
    let started = Instant::now();
    let (mut progress, mut display) = (Progress::default(), Display::new(started));
    // A key without the permission, for example, fails at the first look.
    let mut failures = MAX_FAILURES;
    let job = loop {
        match look(remote, id).await {
            Ok((job, before)) => {
                failures = 0;
                if job.status.has_ended() {
                    break job;
                }
                let state = (job.status, job.stage);
                display.show(&progress.line(&job, before, started.elapsed()), state);
            }
            Err(error) if failures == MAX_FAILURES => {
                display.end();
                return Err(error.context(format!("the backfill {id} may still be running")));
            }
            Err(_) => failures += 1,
        }
        tokio::time::sleep(PERIOD).await;
    };
    display.end();
    summarize(remote, &job, started.elapsed()).await
}

/// The job, and the number of unended jobs that came before it.
async fn look(remote: &Remote, id: &str) -> anyhow::Result<(Job, usize)> {
    let mut jobs: Vec<Job> = remote.get("/admin/backfill/status").await?;
    let at =
        jobs.iter().position(|job| job.id == id).with_context(|| format!("there is no backfill {id}"))?;
    // Newest first.
    let before = jobs.iter().skip(at + 1).filter(|other| !other.status.has_ended()).count();
    Ok((jobs.swap_remove(at), before))
}

#[derive(Deserialize)]
struct Errors {
    counts: BTreeMap<String, u64>,
}

async fn summarize(remote: &Remote, job: &Job, took: Duration) -> anyhow::Result<ExitCode> {
    let count = |number: Option<u64>| grouped(number.unwrap_or_default());
    print_stderr(&format_args!(
        "{}: {} of {} repos, {} records, in {:.1} s",
        job.status,
        count(job.processed_repos),
        count(job.total_repos),
        count(job.total_records),
        took.as_secs_f64(),
    ));
    let failed = job.failed_repos.unwrap_or_default();
    if failed > 0 {
        let Errors { counts } = remote.get(&format!("/admin/backfill/{}/errors?limit=1", job.id)).await?;
        let kinds: Vec<String> = counts.iter().map(|(kind, n)| format!("{kind} {}", grouped(*n))).collect();
        print_error(&format_args!(
            "{} repos could not be read ({}); GET /admin/backfill/{id}/errors lists them, POST \
             /admin/backfill/{id}/retry-failed tries them again",
            grouped(failed),
            kinds.join(", "),
            id = job.id,
        ));
    }
    if let Some(error) = &job.error {
        bail!("{error}");
    }
    Ok(match job.status {
        BackfillStatus::Completed if failed == 0 => ExitCode::SUCCESS,
        BackfillStatus::Completed => ExitCode::from(PARTLY_READ),
        _ => ExitCode::from(FAILED),
    })
}
