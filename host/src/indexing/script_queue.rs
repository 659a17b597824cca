//! Queues changes that a record script has to decide on, so that slow scripts do not slow the stream. Each repo has a
//! queue of its own: while it is not empty, all later changes of the repo queue behind it, which keeps the repo's
//! order. Other repos are not delayed.
//!
//! The cursor does not pass a queued change (its [`Ticket`] is not finished), so a crash loses nothing: the stream
//! replays the event. The number of queued changes is limited. Over the limit, the script of the repo that adds another
//! one is cancelled, and the repo's changes are indexed unmodified and dead-lettered until its queue is empty.

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

/// Queued changes of all repos above which scripts are bypassed: a few seconds of a busy collection with a slow script;
/// about ten megabytes with records of a few kilobytes.
const MAX_QUEUED: usize = 8_192;

/// Bypassing is as fast as the database. When that is still too slow and this many times the limit are queued, the
/// stream waits.
const BACKPRESSURE_FACTOR: usize = 2;

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
    /// Notified when a change has left its queue.
    dequeued: Notify,
    max_queued: usize,
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
        max_queued: usize,
    ) -> Arc<Self> {
        Arc::new(Self {
            scripts,
            writer,
            repos: Mutex::default(),
            queued: AtomicUsize::new(0),
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
            let before = self.queued.fetch_add(1, Ordering::Relaxed);
            metrics::gauge!("belvedere_stream_waiting_for_scripts").set((before + 1) as f64);
            self.enqueue(queued, before >= self.max_queued);
        }
        loop {
            let dequeued = self.dequeued.notified();
            if self.queued.load(Ordering::Relaxed) <= BACKPRESSURE_FACTOR * self.max_queued {
                return;
            }
            tokio::select! {
                () = dequeued => {}
                () = self.stop.cancelled() => return,
            }
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
            let decision = tokio::select! {
                biased;
                () = self.stop.cancelled() => return,
                decision = self.decide(change, action, &bypass) => decision,
            };
            let part = Part { ticket, deferred: 0, changes: decision.into_iter().collect() };
            if self.writer.send(Message::Part(part)).await.is_err() {
                return;
            }
            self.queued.fetch_sub(1, Ordering::Relaxed);
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

#[cfg(test)]
mod tests {
    use futures_util::future::BoxFuture;
    use tokio::sync::Semaphore;

    use super::super::early::EarlyDecision;
    use super::super::testing::delete;
    use super::super::watermark::Reach;
    use super::*;
    use crate::atproto::Tid;
    use crate::store::index::{AccountChange, AccountStatus, Change};
    use crate::store::lease::Term;

    /// Wants every change. Decides on changes of `blocked` repos only after a permit was added, and has decided early on
    /// records with the key `early`.
    struct Slow {
        blocked: &'static str,
        permits: Semaphore,
        bypassed: Mutex<Vec<String>>,
    }

    impl RecordScriptRunner for Slow {
        fn is_idle(&self) -> bool {
            false
        }

        fn wants(&self, _action: RecordAction, _change: &Change) -> bool {
            true
        }

        fn decide(&self, event: RecordEvent) -> BoxFuture<'_, Option<Change>> {
            Box::pin(async move {
                if event.change.uri().did.as_str().ends_with(self.blocked) {
                    self.permits.acquire().await.unwrap().forget();
                }
                Some(event.change)
            })
        }

        fn decide_early(&self, _event: RecordEvent) -> BoxFuture<'_, Option<EarlyDecision>> {
            Box::pin(async { None })
        }

        fn puts_are_alike(&self, _change: &Change) -> bool {
            true
        }

        fn was_decided_early<'a>(&'a self, change: &'a Change) -> BoxFuture<'a, bool> {
            Box::pin(async move { change.uri().rkey.as_str() == "early" })
        }

        fn bypass(&self, event: RecordEvent) -> BoxFuture<'_, Option<Change>> {
            self.bypassed.lock().unwrap().push(event.change.uri().to_string());
            Box::pin(async move { Some(event.change) })
        }
    }

    fn queued(name: &str, rkey: &str) -> QueuedChange {
        let ticket = Ticket { term: Term::ALONE, chunk: 0, parts: 1, reach: Reach::default() };
        QueuedChange {
            change: IndexChange::Record(delete(name, rkey, 1)),
            action: Some(RecordAction::Delete),
            ticket,
        }
    }

    fn set_up(max_queued: usize) -> (Arc<Slow>, Arc<ScriptQueue>, mpsc::Receiver<Message>) {
        let scripts =
            Arc::new(Slow { blocked: ":slow", permits: Semaphore::new(0), bypassed: Mutex::default() });
        let (writer, messages) = mpsc::channel(64);
        (Arc::clone(&scripts), ScriptQueue::with_limit(scripts, writer, max_queued), messages)
    }

    /// The next change that reaches the writer. A part without a change finishes the ticket of an event that is ignored.
    async fn next_uri(messages: &mut mpsc::Receiver<Message>) -> String {
        let part = loop {
            match messages.recv().await {
                Some(Message::Part(part)) if part.changes.is_empty() => {}
                Some(Message::Part(part)) => break part,
                other => panic!("{other:?}"),
            }
        };
        match part.changes.as_slice() {
            [IndexChange::Record(change)] => change.uri().to_string().replace("at://did:plc:", ""),
            [IndexChange::Account(account)] => account.did.to_string(),
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn a_slow_repo_delays_only_itself_and_keeps_its_order() {
        let (scripts, script_queue, mut messages) = set_up(100);
        script_queue.add(vec![queued("slow", "k1")]).await;
        assert!(script_queue.has_queued(queued("slow", "x").change.did()));
        // A change of account status waits behind its repo's records.
        let account = AccountChange {
            did: queued("slow", "x").change.did().clone(),
            status: AccountStatus::Deleted,
            rev: Tid::default(),
        };
        let behind =
            QueuedChange { change: IndexChange::Account(account), action: None, ..queued("slow", "x") };
        script_queue
            .add(vec![queued("quick", "k1"), queued("slow", "k2"), behind, queued("quick", "k2")])
            .await;
        assert_eq!(next_uri(&mut messages).await, "quick/app.example.note/k1");
        assert_eq!(next_uri(&mut messages).await, "quick/app.example.note/k2");
        assert!(messages.try_recv().is_err());

        scripts.permits.add_permits(2);
        assert_eq!(next_uri(&mut messages).await, "slow/app.example.note/k1");
        assert_eq!(next_uri(&mut messages).await, "slow/app.example.note/k2");
        assert_eq!(next_uri(&mut messages).await, "did:plc:slow");
        script_queue.finish().await;
        assert!(!script_queue.has_queued(queued("slow", "x").change.did()));
    }

    #[tokio::test]
    async fn a_repo_over_the_limit_bypasses_its_script() {
        let (scripts, script_queue, mut messages) = set_up(3);
        for rkey in ["k1", "k2", "k3"] {
            script_queue.add(vec![queued("slow", rkey)]).await;
        }
        script_queue.add(vec![queued("quick", "k1")]).await;
        assert!(scripts.bypassed.lock().unwrap().iter().all(|uri| !uri.contains("slow")));
        script_queue.add(vec![queued("slow", "early"), queued("slow", "k4")]).await;
        let mut seen = Vec::new();
        for _ in 0..5 {
            seen.push(next_uri(&mut messages).await);
        }
        let bypassed = scripts.bypassed.lock().unwrap().join(" ");
        assert!(bypassed.contains("k4") && !bypassed.contains("early"), "{bypassed}");
        let slow: Vec<_> = seen.iter().filter(|uri| uri.starts_with("slow")).collect();
        let in_order = ["k1", "k2", "k3", "k4"].map(|rkey| format!("slow/app.example.note/{rkey}"));
        assert_eq!(slow, in_order.iter().collect::<Vec<_>>());
        script_queue.finish().await;
    }

    #[tokio::test]
    async fn changes_queued_at_shutdown_are_not_written() {
        let (_scripts, script_queue, mut messages) = set_up(100);
        script_queue.add(vec![queued("slow", "k1")]).await;
        script_queue.finish().await;
        assert!(messages.try_recv().is_err());
    }
}
