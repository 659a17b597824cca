//! Queues changes that a record script has to decide on, so that slow scripts do not slow the stream. Each repo has a
//! queue of its own: while it is not empty, all later changes of the repo queue behind it, which keeps the repo's
//! order. Other repos are not delayed.
//!
//! The cursor does not pass a queued change (its [`Ticket`] is not finished), so a crash loses nothing: the stream
//! replays the event. The queued changes are limited in number and bytes. Over the limit, the script of the repo that adds another
//! one is cancelled, and the repo's changes are indexed unmodified and dead-lettered until its queue is empty.

#[cfg(test)]
mod tests;

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::apply::IndexChange;
use super::batch::did_of;
use super::message::{Message, Part};
use super::scripts::{RecordAction, RecordEvent, RecordScriptRunner};
use super::watermark::Ticket;
use crate::atproto::Did;
use crate::store::index::Change;

/// How much may be queued before scripts are bypassed: a few seconds of a busy collection with a slow script. Most records
/// have some hundred bytes, so most often the number decides; a record may have 1 MiB.
const MAX_QUEUED: Load = Load { changes: 8_192, bytes: 16 << 20 };

/// Bypassing is as fast as the database. When that is still too slow and this many times the limit are queued, the
/// stream waits.
const BACKPRESSURE_FACTOR: usize = 2;

/// How much is queued.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Load {
    pub changes: usize,
    /// Of records.
    pub bytes: usize,
}

impl Load {
    fn of(change: &IndexChange) -> Self {
        let bytes = match change {
            IndexChange::Record(Change::Upsert(upsert)) => upsert.record.len(),
            IndexChange::Record(Change::Delete(_)) | IndexChange::Account(_) | IndexChange::Repair(_) => 0,
        };
        Self { changes: 1, bytes }
    }

    fn exceeds(self, limit: Self) -> bool {
        self.changes > limit.changes || self.bytes > limit.bytes
    }
}

/// One change in the queue of its repo.
#[derive(Debug)]
pub(super) struct QueuedChange {
    pub change: IndexChange,
    /// The action that a script is bound to; `None` when the change only waits for earlier ones of its repo.
    pub action: Option<RecordAction>,
    pub ticket: Ticket,
}

#[derive(Debug, Default)]
struct RepoQueue {
    queue: VecDeque<QueuedChange>,
    /// Cancelled when the repo's script must be bypassed.
    bypass: CancellationToken,
}

/// The queues of all repos. Shared by the shards and one task per non-empty queue.
pub(super) struct ScriptQueue {
    scripts: Arc<dyn RecordScriptRunner>,
    writer: mpsc::Sender<Message>,
    repos: Mutex<HashMap<Did, RepoQueue>>,
    /// Changes in all queues, including those whose script is running.
    queued: AtomicUsize,
    /// Bytes of their records.
    queued_bytes: AtomicUsize,
    /// Notified when a change has left its queue.
    dequeued: Notify,
    max_queued: Load,
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl ScriptQueue {
    pub(super) fn new(scripts: Arc<dyn RecordScriptRunner>, writer: mpsc::Sender<Message>) -> Arc<Self> {
        Self::with_limit(scripts, writer, MAX_QUEUED)
    }

    pub(super) fn with_limit(
        scripts: Arc<dyn RecordScriptRunner>,
        writer: mpsc::Sender<Message>,
        max_queued: Load,
    ) -> Arc<Self> {
        Arc::new(Self {
            scripts,
            writer,
            repos: Mutex::default(),
            queued: AtomicUsize::new(0),
            queued_bytes: AtomicUsize::new(0),
            dequeued: Notify::new(),
            max_queued,
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
        })
    }

    /// Whether no change is queued and no record script is bound: then changes need not be checked one by one.
    pub(super) fn is_idle(&self) -> bool {
        self.scripts.is_idle() && self.queued.load(Ordering::Relaxed) == 0
    }

    /// Whether a script is bound to the action on this change.
    pub(super) fn wants(&self, action: Option<RecordAction>, change: &IndexChange) -> bool {
        match (action, change) {
            (Some(action), IndexChange::Record(change)) => self.scripts.wants(action, change),
            _ => false,
        }
    }

    /// Whether changes of the repo are queued.
    pub(super) fn has_queued(&self, did: &Did) -> bool {
        self.queued.load(Ordering::Relaxed) > 0 && self.lock().contains_key(did)
    }

    /// Queues changes, in order. The part that they were taken out of must have been sent to the writer already, with
    /// their number in [`Part::deferred`].
    pub(super) async fn add(self: &Arc<Self>, changes: Vec<QueuedChange>) {
        for queued in changes {
            let Load { changes, bytes } = Load::of(&queued.change);
            let load = Load {
                changes: self.queued.fetch_add(changes, Ordering::Relaxed) + changes,
                bytes: self.queued_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes,
            };
            metrics::gauge!("belvedere_stream_waiting_for_scripts").set(load.changes as f64);
            self.enqueue(queued, load.exceeds(self.max_queued));
        }
        let Load { changes, bytes } = self.max_queued;
        let limit = Load { changes: BACKPRESSURE_FACTOR * changes, bytes: BACKPRESSURE_FACTOR * bytes };
        loop {
            let dequeued = self.dequeued.notified();
            if !self.load().exceeds(limit) {
                return;
            }
            tokio::select! {
                () = dequeued => {}
                () = self.stop.cancelled() => return,
            }
        }
    }

    fn load(&self) -> Load {
        Load {
            changes: self.queued.load(Ordering::Relaxed),
            bytes: self.queued_bytes.load(Ordering::Relaxed),
        }
    }

    fn enqueue(self: &Arc<Self>, queued: QueuedChange, bypass_script: bool) {
        let did = queued.change.did().clone();
        let mut repos = self.lock();
        let is_new = !repos.contains_key(&did);
        let repo_queue = repos.entry(did.clone()).or_default();
        repo_queue.queue.push_back(queued);
        if bypass_script {
            repo_queue.bypass.cancel();
        }
        if is_new {
            let bypass = repo_queue.bypass.clone();
            drop(repos);
            let this = Arc::clone(self);
            self.tasks.spawn(async move { this.run(did, bypass).await });
        }
    }

    /// Runs one repo's queue until it is empty.
    async fn run(&self, did: Did, bypass: CancellationToken) {
        while let Some(queued) = self.next(&did) {
            let QueuedChange { change, action, ticket } = queued;
            let Load { changes, bytes } = Load::of(&change);
            let decision = tokio::select! {
                biased;
                () = self.stop.cancelled() => return,
                decision = self.decide(change, action, &bypass) => decision,
            };
            let part = Part { ticket, deferred: 0, changes: decision.into_iter().collect() };
            if self.writer.send(Message::Part(part)).await.is_err() {
                return;
            }
            self.queued.fetch_sub(changes, Ordering::Relaxed);
            self.queued_bytes.fetch_sub(bytes, Ordering::Relaxed);
            self.dequeued.notify_waiters();
        }
    }

    async fn decide(
        &self,
        change: IndexChange,
        action: Option<RecordAction>,
        bypass: &CancellationToken,
    ) -> Option<IndexChange> {
        let (change, action) = match (change, action) {
            (IndexChange::Record(change), Some(action)) => (change, action),
            (change, _) => return Some(change),
        };
        if self.scripts.was_decided_early(&change).await {
            return None;
        }
        let event = RecordEvent { action, change };
        let decision = tokio::select! {
            biased;
            () = bypass.cancelled() => None,
            decision = self.scripts.decide(event.clone()) => Some(decision),
        };
        match decision {
            Some(decision) => decision.map(IndexChange::Record),
            None => self.scripts.bypass(event).await.map(IndexChange::Record),
        }
    }

    /// Takes the repo's next change. An empty queue is removed: all changes that left it have been sent to the writer,
    /// so later changes of the repo can't overtake them.
    fn next(&self, did: &Did) -> Option<QueuedChange> {
        let mut repos = self.lock();
        let queued = repos.get_mut(did).and_then(|repo_queue| repo_queue.queue.pop_front());
        if queued.is_none() {
            repos.remove(did);
        }
        queued
    }

    /// Stops all queues. The stream replays the events of changes that are still queued.
    pub(super) async fn finish(&self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Did, RepoQueue>> {
        self.repos.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl IndexChange {
    /// The repo that the change belongs to.
    pub(super) fn did(&self) -> &Did {
        match self {
            Self::Record(change) => did_of(change),
            Self::Account(account) => &account.did,
            Self::Repair(did) => did,
        }
    }
}
