//! Follows a backfill until it has ended, and sums it up.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, bail};
use serde::Deserialize;
use tokio::time::Instant;

use super::super::display::{Display, grouped};
use super::super::remote::Remote;
use super::super::{FAILED, follow, print_error, print_stderr};
use super::progress::{Job, Progress};
use belvedere_storage::store::status::{BackfillStatus, Status as _};

/// Exit status when the backfill has completed, and some repos could not be read.
const PARTLY_READ: u8 = 3;

pub(super) async fn until_end(remote: &Remote, id: &str) -> anyhow::Result<ExitCode> {
    let started = Instant::now();
    let (mut progress, mut display) = (Progress::default(), Display::new(started));
    let ended = follow::until_end(
        async || look(remote, id).await,
        |(job, before)| {
            if !job.status.has_ended() {
                let line = progress.line(job, *before, started.elapsed());
                display.show(&line, (job.status, job.stage));
            }
            job.status.has_ended()
        },
    )
    .await;
    display.end();
    let (job, _) = ended.with_context(|| format!("the backfill {id} may still be running"))?;
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
