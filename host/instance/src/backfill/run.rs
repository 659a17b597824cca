//! Runs one job through its stages.

use std::sync::Arc;

use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use super::choice::Cars;
use super::deps::Deps;
use super::discovery::Discovery;
use super::fetching::Fetching;
use super::growth::Growth;
use super::lookup;
use super::meter::Meter;
use super::outcome::RunError;
use super::repo_reader::RepoReader;
use super::reporter::Reporter;
use super::request::Server;
use belvedere_protocol::atproto::Nsid;
use belvedere_storage::store::StoreError;
use belvedere_storage::store::backfill::{self, ActiveJob, CATCH_UP, Counters};
use belvedere_storage::store::status::Stage;

/// Runs the job from where it stopped. Returns what it could not do, although it has ended.
pub(super) async fn run(
    deps: &Deps,
    job: &ActiveJob,
    reporter: &Reporter,
    stop: &CancellationToken,
) -> Result<Option<String>, RunError> {
    let collections = collections(deps, job)?;
    if collections.is_empty() {
        if job.kind == CATCH_UP {
            return Ok(None);
        }
        return Ok(Some("no record lexicon is uploaded, so there is nothing to read".to_owned()));
    }
    let reader = Arc::new(RepoReader {
        db: deps.db.clone(),
        net: deps.net.paced(),
        clock: deps.clock.clone(),
        resolver: lookup::resolver_of_jobs(&deps.resolver),
        writer: deps.writer.clone(),
        scripts: Arc::clone(&deps.scripts),
        checker: Arc::clone(&deps.checker),
        job: job.seq,
        is_continued: backfill::has_positions(&deps.db, job.seq).await?,
        is_retry: job.is_discovered,
        registry: Arc::clone(&deps.registry),
        collections: Arc::clone(&collections),
        records: Arc::clone(&reporter.total_records),
        changed_since: job.changed_since,
        meter: Arc::clone(&reporter.meter),
        cars: Cars::new(Arc::clone(&reporter.meter)),
        stop: stop.child_token(),
    });
    let mut note = job.error.clone();
    if matches!(job.stage, Stage::Pending | Stage::DiscoveringRepos) {
        reporter.enter(Stage::DiscoveringRepos).await?;
        // Only what PDSs give is shown by the job.
        let (net, meter) = (deps.net.trusted().paced(), Meter::default());
        let relay = Server { net: &net, clock: &deps.clock, origin: &deps.relay_url, meter: &meter };
        let setting = deps.settings.backfill().max_repos.into();
        let max_repos = job.max_repos.map_or(setting, |max| max.unsigned_abs().min(setting));
        let growth = Mutex::new(Growth::new(&deps.db, &reader.resolver, max_repos));
        let discovery = Discovery { db: &deps.db, relay, growth, reporter, stop };
        let mut found = discovery.run(job, &collections).await?;
        if found.is_unlisted {
            backfill::set_lists_all_repos(&deps.db, job.seq).await?;
            // The stage stays: a job that is continued here has to list the others still.
            Fetching::new(reporter, Arc::clone(&reader), &deps.settings).run().await?;
            discovery.add_all(job, &mut found).await?;
        }
        note = (!found.incomplete.is_empty()).then(|| found.incomplete.join("; "));
        let is_empty = reporter.counters().total_repos == 0;
        match &note {
            Some(error) if is_empty => return Err(RunError::Failed(error.clone())),
            Some(error) => backfill::set_error(&deps.db, job.seq, error).await?,
            None if is_empty => return Ok(None),
            None => {}
        }
    }
    reporter.enter(Stage::ResolvingAndFetching).await?;
    Fetching::new(reporter, reader, &deps.settings).run().await?;
    match unread(deps, job, reporter.counters()).await? {
        Some(why) => Err(RunError::Failed(note.into_iter().chain([why]).collect::<Vec<_>>().join("; "))),
        None => Ok(note),
    }
}

/// The reason why the job has failed, if no repo could be read. Otherwise those that could not be are counted in its
/// row.
async fn unread(deps: &Deps, job: &ActiveJob, counters: Counters) -> Result<Option<String>, StoreError> {
    let Counters { total_repos, failed_repos, total_records, .. } = counters;
    if failed_repos == 0 || failed_repos < total_repos || total_records > 0 {
        return Ok(None);
    }
    let kinds = backfill::error_counts(&deps.db, &job.id).await?;
    let kinds: Vec<String> = kinds.iter().map(|(kind, count)| format!("{kind} {count}")).collect();
    let repos = if total_repos == 1 { "the repo" } else { "none of the repos" };
    let could = if total_repos == 1 { "could not" } else { "could" };
    Ok(Some(format!(
        "{repos} {could} be read ({}); GET /admin/backfill/{id}/errors says why, POST \
         /admin/backfill/{id}/retry-failed tries again",
        kinds.join(", "),
        id = job.id,
    )))
}

/// The collections that the job reads; empty when there is no record lexicon at all.
fn collections(deps: &Deps, job: &ActiveJob) -> Result<Arc<[Nsid]>, RunError> {
    let snapshot = deps.registry.snapshot();
    let Some(name) = &job.collection else { return Ok(Arc::clone(snapshot.tracked())) };
    let found = snapshot.tracked().iter().find(|collection| collection.as_str() == name);
    let missing =
        || RunError::Failed(format!("{name} has no record lexicon; upload one and start the backfill again"));
    found.map(|collection| Arc::from([collection.clone()])).ok_or_else(missing)
}
