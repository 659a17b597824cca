//! Compares the index with the PDSs, and changes nothing.
//!
//! A difference may be a change that the stream has not delivered yet. So a repo that differs is looked at again after
//! the stream has had time, and only what differs in both looks is reported. A repo that changed after the position of
//! the stream can't be compared: its look is repeated, and at last it is reported as not reached.

mod compare;
mod look;
mod report;
mod selection;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::failure::Missing;
use super::lookup;
use super::meter::Meter;
use super::outcome::RunError;
use super::request::RepoList;
use crate::identity::Resolver;
use crate::indexing::{CURSOR_SOURCE, Observer, RecordChecker, StreamReport};
use crate::settings::backfill::BackfillSettings;
use belvedere_base::clock::Clock;
use belvedere_base::random::Random;
use belvedere_protocol::atproto::{Did, Nsid};
use belvedere_storage::store::{Db, StoreError, cursors};
use belvedere_web::net::Client;

use compare::Comparer;
use look::{Look, Unit};
use report::Verdict;
pub use report::{Differences, Report};
use selection::Selection;

/// Maximum number of looks at a repo: once to find a difference, once to confirm it, and once more if it changed
/// meanwhile.
const MAX_LOOKS: u32 = 3;

/// Interval between reads of the stream's position while a look waits for it.
const POSITION_INTERVAL: Duration = Duration::from_millis(250);

/// Compares the index with the PDSs.
pub struct Verifier {
    pub db: Db,
    pub net: Client,
    pub resolver: Resolver,
    pub clock: Clock,
    pub random: Random,
    pub settings: BackfillSettings,
    /// Without a trailing slash.
    pub relay_url: String,
    /// Time that a second look waits for the stream. Without new events its position does not move.
    pub max_wait: Duration,
}

/// The records that are compared.
#[derive(Clone, Debug)]
pub struct Scope {
    /// Those that the index has a record lexicon for.
    pub collections: Arc<[Nsid]>,
    /// `None`: every repo that the index or the relay has.
    pub did: Option<Did>,
    /// That many repos, chosen at random; `None`: all.
    pub sample: Option<usize>,
}

/// The reason why nothing was compared.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("there are more than {0} repos; compare some of them with --sample")]
    TooMany(usize),
    #[error("a comparison has ended unexpectedly: {0}")]
    Task(#[from] tokio::task::JoinError),
}

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Verifier").field("relay_url", &self.relay_url).finish_non_exhaustive()
    }
}

impl Verifier {
    /// Compares the repos of the scope.
    ///
    /// # Errors
    /// When the database fails, or there are more repos than can be compared.
    pub async fn verify(&self, scope: &Scope) -> Result<Report, VerifyError> {
        let mut report = Report::default();
        let dids = match &scope.did {
            Some(did) => vec![did.clone()],
            None => self.select(scope, &mut report).await?,
        };
        let checker = RecordChecker::new(Arc::new(Silent), Arc::default(), self.clock.clone());
        let comparer = Arc::new(Comparer {
            db: self.db.clone(),
            net: self.net.clone(),
            clock: self.clock.clone(),
            resolver: lookup::resolver_of_jobs(&self.resolver),
            collections: Arc::clone(&scope.collections),
            checker,
            meter: Meter::default(),
        });
        let mut units: Vec<Unit> = dids.into_iter().map(Unit::new).collect();
        for look in 1..=MAX_LOOKS {
            let mut again = Vec::new();
            Look::new(&self.settings, Arc::clone(&comparer))
                .run(units, |unit, seen| match report.judge(seen, unit.before.take(), look == MAX_LOOKS) {
                    Verdict::Final => {}
                    Verdict::Again(before) => {
                        unit.before = before;
                        again.push(Unit::again(unit));
                    }
                })
                .await?;
            if again.is_empty() {
                break;
            }
            units = again;
            self.wait_for_stream().await?;
        }
        Ok(report)
    }

    async fn select(&self, scope: &Scope, report: &mut Report) -> Result<Vec<Did>, VerifyError> {
        let mut selection = Selection::new(scope.sample, &self.random);
        let mut lists: Vec<_> = scope.collections.iter().map(RepoList::Of).collect();
        while let Some(list) = lists.pop() {
            if let RepoList::Of(collection) = list {
                selection.add_indexed(&self.db, collection).await?;
            }
            let listed = selection.add_listed(self, list, &CancellationToken::new()).await;
            match listed {
                Ok(None) => {}
                // A relay without lists by collection may list all of its repos.
                Ok(Some(failure)) if failure.missing == Some(Missing::Method) && list != RepoList::All => {
                    if !lists.contains(&RepoList::All) {
                        lists.insert(0, RepoList::All);
                    }
                }
                Ok(Some(failure)) => report.not_reached.add(&self.relay_url, &failure.text),
                Err(RunError::Store(error)) => return Err(error.into()),
                Err(error) => report.not_reached.add(&self.relay_url, &error.to_string()),
            }
            selection.check()?;
        }
        Ok(selection.into_dids())
    }

    /// Waits until the index has what had happened by now, at most for `max_wait`.
    async fn wait_for_stream(&self) -> Result<(), StoreError> {
        let (now, until) = (self.clock.now().0, Instant::now() + self.max_wait);
        while cursors::get(&self.db, CURSOR_SOURCE).await?.is_none_or(|position| position < now) {
            if Instant::now() >= until {
                break;
            }
            tokio::time::sleep(POSITION_INTERVAL.min(self.max_wait)).await;
        }
        Ok(())
    }
}

/// Verifying has no event log.
struct Silent;

impl Observer for Silent {
    fn report(&self, _report: StreamReport) {}
    fn identity_changed(&self, _did: &Did) {}
}
