//! Queues events that take long, so that they do not delay other repos: large records, which are checked here, and
//! changes that a record script has to decide on. Each repo has a queue of its own: while it is not empty, all later
//! changes of the repo queue behind it, which keeps the repo's order.
//!
//! The cursor does not pass a queued event (its [`Ticket`] is not finished), so a crash loses nothing: the stream
//! replays the event. The queued events are limited in number and bytes. Over the limit, the script of the repo that
//! adds another change is cancelled, and the repo's changes are indexed unmodified and dead-lettered until its queue is
//! empty. Large records that are not checked yet have a limit of their own, and bypass no script: over it, the stream
//! waits.

mod load;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Semaphore, mpsc};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::load::{Amount, Counted, Load};
use super::apply::RecordChecker;
use super::change::{ClaimedRecord, IndexChange};
use super::message::{Message, Part};
use super::scripts::{RecordEvent, RecordScriptRunner};
use super::tally::Tally;
use super::watermark::Ticket;
use belvedere_base::hand_over_thread::{self, hand_over_thread};
use belvedere_protocol::atproto::Did;

/// The capacity of the queues.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Changes that may be queued before scripts are bypassed.
    pub changes: Amount,
    /// Large records that may wait for their check before the stream waits.
    pub unchecked: Amount,
    /// A record of more bytes is large.
    pub large_bytes: usize,
    /// Large records that are checked at a time.
    pub checks: usize,
}

impl Limits {
    /// Changes: a few seconds of a busy collection with a slow script. Most records have some hundred bytes, so most
    /// often the number decides; a record may have 1 MiB. Checks: half of the cores of the shards are left to other repos.
    pub(super) fn for_shards(shards: usize) -> Self {
        Self {
            changes: Amount { events: 8_192, bytes: 16 << 20 },
            unchecked: Amount { events: 64, bytes: 4 << 20 },
            large_bytes: hand_over_thread::LARGE,
            checks: shards.div_ceil(2),
        }
    }
}

/// Bypassing is as fast as the database. When that is still too slow and this many times the limit are queued, the
/// stream waits.
const BACKPRESSURE_FACTOR: usize = 2;

/// The stage of a change before the writer.
#[derive(Debug)]
pub(super) enum Step {
    /// It has a large record, to be checked.
    Unchecked(IndexChange<ClaimedRecord>),
    Checked(IndexChange),
}

impl Step {
    /// The repo that the change belongs to.
    pub(super) fn did(&self) -> &Did {
        match self {
            Self::Unchecked(change) => change.did(),
            Self::Checked(change) => change.did(),
        }
    }
}

#[derive(Debug, Default)]
struct RepoQueue {
    queue: VecDeque<Queued>,
    /// Cancelled when the repo's script must be bypassed.
    bypass: CancellationToken,
}

#[derive(Debug)]
struct Queued {
    step: Step,
    ticket: Ticket,
    counted: Counted,
}

/// The queues of all repos. Shared by the shards and one task per non-empty queue.
pub(super) struct RepoQueues {
    checker: Arc<RecordChecker>,
    scripts: Arc<dyn RecordScriptRunner>,
    writer: mpsc::Sender<Message>,
    repos: Mutex<HashMap<Did, RepoQueue>>,
    changes: Load,
    unchecked: Load,
    limits: Limits,
    checks: Semaphore,
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl RepoQueues {
    pub(super) fn new(
        checker: Arc<RecordChecker>,
        scripts: Arc<dyn RecordScriptRunner>,
        writer: mpsc::Sender<Message>,
        limits: Limits,
    ) -> Arc<Self> {
        Arc::new(Self {
            checker,
            scripts,
            writer,
            repos: Mutex::default(),
            changes: Load::default(),
            unchecked: Load::default(),
            limits,
            checks: Semaphore::new(limits.checks),
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
        })
    }

    /// Whether an event is to be queued before its record is checked.
    pub(super) fn takes_unchecked(&self, change: &IndexChange<ClaimedRecord>) -> bool {
        change.record_bytes() > self.limits.large_bytes
    }

    /// Whether nothing is queued and no record script is bound: then changes need not be looked at one by one.
    pub(super) fn is_idle(&self) -> bool {
        self.scripts.is_idle() && self.is_empty()
    }

    /// In the order in which an event goes through the two, so that one which moves on meanwhile is seen.
    fn is_empty(&self) -> bool {
        self.unchecked.is_empty() && self.changes.is_empty()
    }

    /// Whether a script is bound to the event.
    pub(super) fn is_scripted(&self, change: &IndexChange) -> bool {
        matches!(change, IndexChange::Record(event) if self.scripts.wants(event.action, &event.change))
    }

    /// Whether events of the repo are queued.
    pub(super) fn has_queued(&self, did: &Did) -> bool {
        !self.is_empty() && self.lock().contains_key(did)
    }

    /// Queues events of a slice, in order. The part that they were taken out of must have been sent to the writer already,
    /// with their number in [`Part::deferred`]. Waits while far too much is queued.
    pub(super) async fn add(self: &Arc<Self>, ticket: Ticket, steps: Vec<Step>) {
        if steps.is_empty() {
            return;
        }
        for step in steps {
            let counted = match &step {
                Step::Unchecked(change) => self.unchecked.count(change.record_bytes()),
                Step::Checked(change) => self.changes.count(change.record_bytes()),
            };
            self.enqueue(Queued { step, ticket, counted });
        }
        metrics::gauge!("belvedere_stream_waiting_for_scripts").set(self.changes.amount().events as f64);
        let relieved = async {
            self.changes.falls_to(self.limits.changes.times(BACKPRESSURE_FACTOR)).await;
            self.unchecked.falls_to(self.limits.unchecked).await;
        };
        tokio::select! {
            () = relieved => {}
            () = self.stop.cancelled() => {}
        }
    }

    fn enqueue(self: &Arc<Self>, queued: Queued) {
        let (did, is_checked) = (queued.step.did().clone(), matches!(queued.step, Step::Checked(_)));
        let mut repos = self.lock();
        let is_new = !repos.contains_key(&did);
        let repo_queue = repos.entry(did.clone()).or_default();
        repo_queue.queue.push_back(queued);
        if is_checked {
            self.bypass_if_too_many(&repo_queue.bypass);
        }
        if is_new {
            let bypass = repo_queue.bypass.clone();
            drop(repos);
            let this = Arc::clone(self);
            self.tasks.spawn(async move { this.run(did, bypass).await });
        }
    }

    fn bypass_if_too_many(&self, bypass: &CancellationToken) {
        if self.changes.amount().exceeds(self.limits.changes) {
            bypass.cancel();
        }
    }

    /// Runs one repo's queue until it is empty.
    async fn run(&self, did: Did, bypass: CancellationToken) {
        while let Some(Queued { step, ticket, mut counted }) = self.next(&did) {
            let change = tokio::select! {
                biased;
                () = self.stop.cancelled() => return,
                change = self.finish_event(step, &mut counted, &bypass) => change,
            };
            let part = Part { ticket, deferred: 0, changes: change.into_iter().collect() };
            if self.writer.send(Message::Part(part)).await.is_err() {
                return;
            }
        }
    }

    /// The change to index for an event: checks its record, if that has not been done, and lets its script decide.
    async fn finish_event(
        &self,
        step: Step,
        counted: &mut Counted,
        bypass: &CancellationToken,
    ) -> Option<IndexChange> {
        let checked = match step {
            Step::Checked(checked) => checked,
            Step::Unchecked(change) => {
                let checked = self.check(change).await?;
                *counted = self.changes.count(checked.record_bytes());
                self.bypass_if_too_many(bypass);
                checked
            }
        };
        let mut change = self.decide(checked, bypass).await?;
        if let IndexChange::Record(event) = &mut change {
            self.checker.validate(&mut event.change);
        }
        Some(change)
    }

    /// `None` when the record is not indexed.
    async fn check(&self, change: IndexChange<ClaimedRecord>) -> Option<IndexChange> {
        let _permit = self.checks.acquire().await.ok()?;
        let (bytes, mut tally) = (change.record_bytes(), Tally::default());
        let checked = hand_over_thread(bytes, || self.checker.apply(change, &mut tally));
        tally.flush();
        checked
    }

    async fn decide(&self, change: IndexChange, bypass: &CancellationToken) -> Option<IndexChange> {
        if !self.is_scripted(&change) {
            return Some(change);
        }
        let IndexChange::Record(event) = change else { return Some(change) };
        if self.scripts.was_decided_early(&event.change).await {
            return None;
        }
        let action = event.action;
        let decision = tokio::select! {
            biased;
            () = bypass.cancelled() => None,
            decision = self.scripts.decide(event.clone()) => Some(decision),
        };
        let decided = match decision {
            Some(decision) => decision,
            None => self.scripts.bypass(event).await,
        };
        decided.map(|change| IndexChange::Record(RecordEvent { action, change }))
    }

    /// Takes the repo's next event. An empty queue is removed: all changes that left it have been sent to the writer,
    /// so later changes of the repo can't overtake them.
    fn next(&self, did: &Did) -> Option<Queued> {
        let mut repos = self.lock();
        let queued = repos.get_mut(did).and_then(|repo_queue| repo_queue.queue.pop_front());
        if queued.is_none() {
            repos.remove(did);
        }
        queued
    }

    /// Stops all queues. The stream replays the events that are still queued.
    pub(super) async fn finish(&self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Did, RepoQueue>> {
        self.repos.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
