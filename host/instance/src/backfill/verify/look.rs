//! Looks at repos, with the queues by host of backfills.

use std::sync::Arc;

use tokio::task::JoinSet;
use tokio::time::Instant;

use super::super::failure::{Attempts, Failure};
use super::super::hosts::{Added, Hosts, Task, Ticket};
use super::super::lookup::{self, pds_of};
use super::VerifyError;
use super::compare::{CompareError, Comparer, repo_uri};
use super::report::{Before, Seen};
use crate::settings::backfill::BackfillSettings;
use belvedere_protocol::atproto::Did;
use belvedere_storage::store::StoreError;

/// A repo to look at.
#[derive(Debug)]
pub(super) struct Unit {
    did: Did,
    /// The findings of the last look.
    pub(super) before: Option<Before>,
    lookups: Attempts,
    attempts: Attempts,
}

/// One look at each of many repos.
pub(super) struct Look<'a> {
    settings: &'a BackfillSettings,
    comparer: Arc<Comparer>,
    lookups: Hosts<Unit>,
    repos: Hosts<Unit>,
    tasks: JoinSet<Ended>,
}

enum Ended {
    LookedUp(Ticket, Unit, Result<String, Failure>),
    Compared(Ticket, Unit, Result<Seen, CompareError>),
    /// The account is gone, so nothing of it may be visible.
    Gone(Ticket, Unit, Result<Seen, CompareError>),
}

impl Unit {
    pub(super) fn new(did: Did) -> Self {
        Self { did, before: None, lookups: Attempts::default(), attempts: Attempts::default() }
    }

    /// The same repo for another look.
    pub(super) fn again(unit: &mut Self) -> Self {
        Self { before: unit.before.take(), ..Self::new(unit.did.clone()) }
    }
}

impl<'a> Look<'a> {
    pub(super) fn new(settings: &'a BackfillSettings, comparer: Arc<Comparer>) -> Self {
        Self {
            settings,
            comparer,
            lookups: Hosts::new(lookup::directory_bounds(settings)),
            // The DIDs are in memory already.
            repos: Hosts::new(lookup::pds_bounds(settings, usize::MAX)),
            tasks: JoinSet::new(),
        }
    }

    /// Looks at all units; calls `each` with what each look has found.
    pub(super) async fn run(
        mut self,
        units: Vec<Unit>,
        mut each: impl FnMut(&mut Unit, (String, Seen)),
    ) -> Result<(), VerifyError> {
        let mut each = |mut unit: Unit, seen: Seen| {
            let uri = repo_uri(&unit.did);
            each(&mut unit, (uri, seen));
        };
        for unit in units {
            let host = lookup::host_of(&unit.did).to_owned();
            // No host was given up yet.
            let _ = self.lookups.add(&host, unit);
        }
        while !(self.tasks.is_empty() && self.lookups.is_idle() && self.repos.is_idle()) {
            self.start();
            let cooled = [self.lookups.next_cooled(), self.repos.next_cooled()];
            let wake = cooled.into_iter().flatten().min();
            let cooled = async {
                match wake {
                    Some(wake) => tokio::time::sleep_until(wake).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                Some(ended) = self.tasks.join_next() => {
                    for (unit, seen) in self.ended(ended?)? {
                        each(unit, seen);
                    }
                }
                () = cooled => {}
            }
        }
        Ok(())
    }

    fn start(&mut self) {
        let now = Instant::now();
        while self.lookups.in_progress() < self.settings.concurrent_resolution as usize
            && let Some(task) = self.lookups.next(now)
        {
            self.tasks.spawn(look_up(Arc::clone(&self.comparer), task));
        }
        while let Some(task) = self.repos.next(now) {
            self.tasks.spawn(compare(Arc::clone(&self.comparer), task));
        }
    }

    /// Returns the units that are finished.
    fn ended(&mut self, ended: Ended) -> Result<Vec<(Unit, Seen)>, StoreError> {
        Ok(match ended {
            Ended::LookedUp(ticket, unit, Ok(endpoint)) => {
                self.lookups.succeeded(&ticket, 1);
                self.queue(&endpoint, unit)
            }
            Ended::LookedUp(ticket, mut unit, Err(failure)) => {
                let (max_attempts, max_failures) = lookup::limits(&ticket.host, self.settings.max_attempts);
                let again = unit.lookups.again(&failure, max_attempts);
                retry(&mut self.lookups, &ticket, unit, again, max_failures, failure)
            }
            Ended::Gone(ticket, unit, seen) => {
                self.lookups.succeeded(&ticket, 1);
                match seen {
                    Ok(seen) => vec![(unit, seen)],
                    Err(CompareError::Store(error)) => return Err(error),
                    Err(CompareError::Failed(failure)) => vec![(unit, Seen::NotReached(failure.text))],
                    Err(CompareError::Moved(endpoint)) => self.queue(&endpoint, unit),
                }
            }
            Ended::Compared(ticket, unit, Ok(seen)) => {
                self.repos.succeeded(&ticket, seen.given(self.comparer.collections.len()));
                vec![(unit, seen)]
            }
            Ended::Compared(ticket, unit, Err(CompareError::Moved(endpoint))) => {
                self.repos.succeeded(&ticket, 1);
                self.queue(&endpoint, unit)
            }
            Ended::Compared(_, _, Err(CompareError::Store(error))) => return Err(error),
            Ended::Compared(ticket, mut unit, Err(CompareError::Failed(failure))) => {
                let again = unit.attempts.again(&failure, self.settings.max_attempts);
                retry(&mut self.repos, &ticket, unit, again, lookup::MAX_HOST_FAILURES, failure)
            }
        })
    }

    fn queue(&mut self, endpoint: &str, unit: Unit) -> Vec<(Unit, Seen)> {
        match self.repos.add(endpoint, unit) {
            Added::GivenUp(unit, failure) => vec![(unit, Seen::NotReached(failure.text))],
            Added::Queued | Added::Left => Vec::new(),
        }
    }
}

/// Ends a failed attempt. Returns the units that are not tried again.
fn retry(
    hosts: &mut Hosts<Unit>,
    ticket: &Ticket,
    unit: Unit,
    again: bool,
    max_failures: u32,
    failure: Failure,
) -> Vec<(Unit, Seen)> {
    if !failure.kind.is_retryable() {
        hosts.succeeded(ticket, 1);
        return vec![(unit, Seen::NotReached(failure.text))];
    }
    let (again, given_up) = if again { (Some(unit), None) } else { (None, Some(unit)) };
    let lost = hosts.failed(ticket, &failure, again, 0, max_failures, Instant::now());
    let lost = lost.into_iter().chain(given_up);
    lost.map(|unit| (unit, Seen::NotReached(failure.text.clone()))).collect()
}

async fn look_up(comparer: Arc<Comparer>, task: Task<Unit>) -> Ended {
    let (ticket, unit) = task.into_parts();
    match pds_of(&comparer.resolver, &unit.did, false).await {
        Err(failure) if failure.status.is_some() => {
            let seen = comparer.unavailable(&unit.did, failure).await;
            Ended::Gone(ticket, unit, seen)
        }
        found => Ended::LookedUp(ticket, unit, found),
    }
}

async fn compare(comparer: Arc<Comparer>, task: Task<Unit>) -> Ended {
    let (ticket, unit) = task.into_parts();
    let seen = comparer.compare(&ticket.host, &unit.did).await;
    Ended::Compared(ticket, unit, seen)
}
