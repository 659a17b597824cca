//! Queues of work by host. A host that fails cools down while the others go on, and is given up after a few failures.

mod ready;

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::failure::{ErrorKind, Failure, MAX_WAIT};
use super::rate_limit::RateLimit;
use ready::ReadyHosts;

/// Cooldown after the first failure of a host; doubles with each further one.
const FIRST_COOLDOWN: Duration = Duration::from_millis(500);

/// The limits of parallel work and of its memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// Hosts that are worked on at the same time.
    pub(super) hosts: usize,
    /// Units of one host that are worked on at the same time.
    pub(super) units_per_host: usize,
    /// Units of one host that are kept in memory. The rest stays in the database until these are done.
    pub(super) max_queued: usize,
}

/// Work for many hosts.
#[derive(Debug)]
pub(super) struct Hosts<U> {
    bounds: Bounds,
    by_name: HashMap<Arc<str>, Host<U>>,
    /// Hosts with units in progress.
    active: Vec<Arc<str>>,
    /// Hosts without units in progress that can begin.
    ready: ReadyHosts,
    cooling: BTreeSet<(Instant, Arc<str>)>,
    /// Hosts whose units in memory are done and that have more in the database.
    drained: Vec<Arc<str>>,
    queued: usize,
    in_progress: usize,
}

#[derive(Debug)]
struct Host<U> {
    queue: VecDeque<U>,
    in_progress: usize,
    is_cooling: bool,
    /// Failures since the last success.
    failures: u32,
    limit: RateLimit,
    /// Counts cooldowns: several units that were in progress together are one failure of the host.
    round: u64,
    /// The reason why the host was given up.
    given_up: Option<Failure>,
    /// More units of the host are in the database.
    has_more: bool,
}

/// A unit to work on.
#[derive(Debug)]
pub(super) struct Task<U> {
    pub(super) host: Arc<str>,
    pub(super) unit: U,
    round: u64,
}

/// Identifies a [`Task`] when it ends.
#[derive(Clone, Debug)]
pub(super) struct Ticket {
    pub(super) host: Arc<str>,
    round: u64,
}

/// The result of adding a unit.
#[derive(Debug)]
pub(super) enum Added<U> {
    Queued,
    /// The host has enough units in memory: this one is left in the database.
    Left,
    /// The host was given up.
    GivenUp(U, Failure),
}

impl<U> Task<U> {
    pub(super) fn into_parts(self) -> (Ticket, U) {
        (Ticket { host: self.host, round: self.round }, self.unit)
    }
}

impl<U> Hosts<U> {
    pub(super) fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            by_name: HashMap::new(),
            active: Vec::new(),
            ready: ReadyHosts::default(),
            cooling: BTreeSet::new(),
            drained: Vec::new(),
            queued: 0,
            in_progress: 0,
        }
    }

    /// Replaces the numbers of concurrent requests.
    pub(super) fn set_concurrency(&mut self, hosts: usize, units_per_host: usize) {
        self.bounds = Bounds { hosts, units_per_host, ..self.bounds };
    }

    /// Units in memory that wait.
    pub(super) fn queued(&self) -> usize {
        self.queued
    }

    /// Units that are worked on.
    pub(super) fn in_progress(&self) -> usize {
        self.in_progress
    }

    /// Whether nothing waits and nothing is in progress.
    pub(super) fn is_idle(&self) -> bool {
        self.queued == 0 && self.in_progress == 0 && self.drained.is_empty()
    }

    /// Registers a host whose units are in the database.
    pub(super) fn register(&mut self, name: &str) {
        let name: Arc<str> = name.into();
        let host = self.by_name.entry(Arc::clone(&name)).or_default();
        if !host.has_more {
            host.has_more = true;
            if host.queue.is_empty() && host.in_progress == 0 {
                self.drained.push(name);
            }
        }
    }

    /// A host whose units in memory are done and that has more in the database. The caller adds them, and calls
    /// [`Hosts::register`] if there are still more.
    pub(super) fn next_drained(&mut self) -> Option<Arc<str>> {
        let name = self.drained.pop()?;
        if let Some(host) = self.by_name.get_mut(&name) {
            host.has_more = false;
        }
        Some(name)
    }

    /// Adds a unit that was not tried yet.
    pub(super) fn add(&mut self, name: &str, unit: U) -> Added<U> {
        let name = match self.by_name.get_key_value(name) {
            Some((name, _)) => Arc::clone(name),
            None => name.into(),
        };
        let host = self.by_name.entry(Arc::clone(&name)).or_default();
        if let Some(failure) = &host.given_up {
            return Added::GivenUp(unit, failure.clone());
        }
        if host.queue.len() >= self.bounds.max_queued || host.has_more {
            host.has_more = true;
            return Added::Left;
        }
        self.enqueue(&name, unit);
        Added::Queued
    }

    fn enqueue(&mut self, name: &Arc<str>, unit: U) {
        let Some(host) = self.by_name.get_mut(name) else { return };
        host.queue.push_back(unit);
        self.queued += 1;
        self.make_ready(name);
    }

    /// Lets the host begin if it has work and does not cool down. An active host begins by itself.
    fn make_ready(&mut self, name: &Arc<str>) {
        let Some(host) = self.by_name.get(name) else { return };
        if !host.queue.is_empty() && !host.is_cooling && !self.active.contains(name) {
            self.ready.set(name, if host.has_more { usize::MAX } else { host.queue.len() });
        }
    }

    /// The next unit to work on; `None` when all hosts are busy, cooling down or without work.
    pub(super) fn next(&mut self, now: Instant) -> Option<Task<U>> {
        while let Some((until, name)) = self.cooling.first().cloned()
            && until <= now
        {
            self.cooling.pop_first();
            if let Some(host) = self.by_name.get_mut(&name) {
                host.is_cooling = false;
            }
            self.make_ready(&name);
        }
        let found = self.active.iter().position(|name| {
            self.by_name.get(name).is_some_and(|host| {
                !host.is_cooling && !host.queue.is_empty() && host.in_progress < self.bounds.units_per_host
            })
        });
        let name = if let Some(found) = found {
            // To the end, so that the hosts take turns.
            let name = self.active.remove(found);
            self.active.push(Arc::clone(&name));
            name
        } else {
            if self.active.len() >= self.bounds.hosts {
                return None;
            }
            let name = self.next_ready()?;
            self.active.push(Arc::clone(&name));
            name
        };
        let host = self.by_name.get_mut(&name)?;
        let unit = host.queue.pop_front()?;
        host.in_progress += 1;
        self.queued -= 1;
        self.in_progress += 1;
        Some(Task { round: host.round, host: name, unit })
    }

    /// The next host to begin with. One that has lost its work since it became ready is passed over.
    fn next_ready(&mut self) -> Option<Arc<str>> {
        loop {
            let name = self.ready.pop()?;
            if self.by_name.get(&name).is_some_and(|host| !host.queue.is_empty() && !host.is_cooling) {
                return Some(name);
            }
        }
    }

    /// The reason why a host was given up.
    pub(super) fn given_up(&self, name: &str) -> Option<Failure> {
        self.by_name.get(name)?.given_up.clone()
    }

    /// The time at which the next host has cooled down.
    pub(super) fn next_cooled(&self) -> Option<Instant> {
        self.cooling.first().map(|(until, _)| *until)
    }

    /// Ends a unit to which the host responded. `given`: how much the host has given for it.
    pub(super) fn succeeded(&mut self, ticket: &Ticket, given: u64) {
        if let Some(host) = self.by_name.get_mut(&ticket.host) {
            host.failures = 0;
            host.limit.gave(given);
            host.given_up = None;
        }
        self.leave(&ticket.host);
    }

    /// Ends a unit at which the host failed. With `again`, the unit goes to the end of the host's queue. After
    /// `max_failures` in a row, the host is given up: returns the units to fail because of that. Answers of 429 are no
    /// failures, but waits have an end too, which is later if the host has `given` something for the unit.
    pub(super) fn failed(
        &mut self,
        ticket: &Ticket,
        failure: &Failure,
        again: Option<U>,
        given: u64,
        max_failures: u32,
        now: Instant,
    ) -> Vec<U> {
        let mut lost = Vec::new();
        if let Some(host) = self.by_name.get_mut(&ticket.host) {
            if let Some(unit) = again {
                host.queue.push_back(unit);
                self.queued += 1;
            }
            // Also what came after another unit had begun the cooldown.
            host.limit.gave(given);
            if host.round == ticket.round {
                host.round += 1;
                if let Some(wait) = host.cooldown(failure, max_failures, now) {
                    host.is_cooling = true;
                    self.cooling.insert((now + wait, Arc::clone(&ticket.host)));
                } else {
                    host.given_up = Some(failure.clone());
                }
            }
            if host.given_up.is_some() {
                lost.extend(host.queue.drain(..));
                self.queued -= lost.len();
            }
        }
        self.leave(&ticket.host);
        lost
    }

    fn leave(&mut self, name: &Arc<str>) {
        let Some(host) = self.by_name.get_mut(name) else { return };
        host.in_progress -= 1;
        self.in_progress -= 1;
        if host.in_progress > 0 || (!host.queue.is_empty() && !host.is_cooling) {
            return;
        }
        self.active.retain(|other| other != name);
        if host.queue.is_empty() && host.has_more {
            self.drained.push(Arc::clone(name));
        } else if host.queue.is_empty() && !host.is_remembered() {
            // DIDs can name millions of hosts.
            self.by_name.remove(name);
        }
    }
}

impl<U> Host<U> {
    /// Whether further units of the host depend on how it has answered. The waits of a host are counted for all of its
    /// units together, so that it can't multiply them with accounts that come one after the other.
    fn is_remembered(&self) -> bool {
        self.failures > 0 || self.is_cooling || self.given_up.is_some() || self.limit.has_waited()
    }

    /// Counts a failure. Returns for how long the host cools down; `None` when it is given up.
    fn cooldown(&mut self, failure: &Failure, max_failures: u32, now: Instant) -> Option<Duration> {
        if failure.kind == ErrorKind::RateLimited {
            return self.limit.wait(failure, now);
        }
        self.failures += 1;
        let doubled = FIRST_COOLDOWN.saturating_mul(1 << (self.failures - 1).min(16));
        let is_dead = self.failures >= max_failures;
        (!is_dead).then(|| doubled.max(failure.wait.unwrap_or_default()).min(MAX_WAIT))
    }
}

impl<U> Default for Host<U> {
    fn default() -> Self {
        Self {
            queue: VecDeque::new(),
            in_progress: 0,
            is_cooling: false,
            failures: 0,
            limit: RateLimit::default(),
            round: 0,
            given_up: None,
            has_more: false,
        }
    }
}

#[cfg(test)]
mod tests;
