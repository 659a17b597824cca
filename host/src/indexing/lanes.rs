//! Where events wait for their scripts, off the stream's way. Each repo has a lane of its own while it has anything to
//! wait for: its events leave the lane in the order they came, and whatever comes for that repo meanwhile gets in line.
//! All other repos go on.
//!
//! The cursor does not pass an event that is still in a lane (its [`Ticket`] is not finished), so a crash loses
//! nothing: the stream brings the event again. Lanes are bounded. A repo whose lane would exceed the bound is hurried:
//! its script is interrupted, and its events go on as they came, as after any script that failed.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::apply::Item;
use super::batch::did_of;
use super::scripts::{Action, RecordEvent, RecordScripts};
use super::watermark::Ticket;
use super::writer::{Message, Part};
use crate::atproto::Did;

/// Events in all lanes before repos are hurried: some seconds of a busy collection whose script answers slowly, and with
/// records of a few kilobytes some ten megabytes.
const MOST_WAITING: usize = 8_192;

/// Hurried events are written down as fast as the database takes them. If even that does not keep up, and so many times
/// the bound wait, the stream waits too.
const FLOOD: usize = 2;

/// One event in a lane.
#[derive(Debug)]
pub(super) struct Waiting {
    pub item: Item,
    /// What its script is asked about; `None` when it only waits for those before it.
    pub asks: Option<Action>,
    pub ticket: Ticket,
}

#[derive(Debug, Default)]
struct Lane {
    queue: VecDeque<Waiting>,
    /// Cancelled when its events shall wait no more.
    hurried: CancellationToken,
}

/// All lanes. Shared by the shards and the lanes' own tasks.
pub(super) struct Lanes {
    scripts: Arc<dyn RecordScripts>,
    writer: mpsc::Sender<Message>,
    by_repo: Mutex<HashMap<Did, Lane>>,
    /// Events in lanes, the one at work included.
    waiting: AtomicUsize,
    left: Notify,
    most: usize,
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl Lanes {
    pub(super) fn new(scripts: Arc<dyn RecordScripts>, writer: mpsc::Sender<Message>) -> Arc<Self> {
        Self::bounded(scripts, writer, MOST_WAITING)
    }

    pub(super) fn bounded(
        scripts: Arc<dyn RecordScripts>,
        writer: mpsc::Sender<Message>,
        most: usize,
    ) -> Arc<Self> {
        Arc::new(Self {
            scripts,
            writer,
            by_repo: Mutex::default(),
            waiting: AtomicUsize::new(0),
            left: Notify::new(),
            most,
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
        })
    }

    /// Whether nothing waits and nothing will have to: then no event need be looked at.
    pub(super) fn is_idle(&self) -> bool {
        self.scripts.is_idle() && self.waiting.load(Ordering::Relaxed) == 0
    }

    pub(super) fn wants(&self, action: Option<Action>, item: &Item) -> bool {
        match (action, item) {
            (Some(action), Item::Change(change)) => self.scripts.wants(action, change),
            _ => false,
        }
    }

    /// Whether the repo has anything to wait for.
    pub(super) fn is_busy(&self, did: &Did) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0 && self.lock().contains_key(did)
    }

    /// Puts events in line, in order. The part they were taken out of must be on its way to the writer already, with
    /// their number in [`Part::late`].
    pub(super) async fn add(self: &Arc<Self>, events: Vec<Waiting>) {
        for waiting in events {
            let before = self.waiting.fetch_add(1, Ordering::Relaxed);
            metrics::gauge!("belvedere_stream_waiting_for_scripts").set((before + 1) as f64);
            self.enqueue(waiting, before >= self.most);
        }
        loop {
            let left = self.left.notified();
            if self.waiting.load(Ordering::Relaxed) <= FLOOD * self.most {
                return;
            }
            tokio::select! {
                () = left => {}
                () = self.stop.cancelled() => return,
            }
        }
    }

    fn enqueue(self: &Arc<Self>, waiting: Waiting, hurry: bool) {
        let did = waiting.item.did().clone();
        let mut lanes = self.lock();
        let is_new = !lanes.contains_key(&did);
        let lane = lanes.entry(did.clone()).or_default();
        lane.queue.push_back(waiting);
        if hurry {
            lane.hurried.cancel();
        }
        if is_new {
            let hurried = lane.hurried.clone();
            drop(lanes);
            let this = Arc::clone(self);
            self.tasks.spawn(async move { this.run(did, hurried).await });
        }
    }

    /// One repo's lane, until it is empty.
    async fn run(&self, did: Did, hurried: CancellationToken) {
        while let Some(waiting) = self.next(&did) {
            let Waiting { item, asks, ticket } = waiting;
            let decided = tokio::select! {
                biased;
                () = self.stop.cancelled() => return,
                decided = self.decide(item, asks, &hurried) => decided,
            };
            let part = Part { ticket, late: 0, items: decided.into_iter().collect() };
            if self.writer.send(Message::Part(part)).await.is_err() {
                return;
            }
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            self.left.notify_waiters();
        }
    }

    async fn decide(&self, item: Item, asks: Option<Action>, hurried: &CancellationToken) -> Option<Item> {
        let (change, action) = match (item, asks) {
            (Item::Change(change), Some(action)) => (change, action),
            (item, _) => return Some(item),
        };
        let event = RecordEvent { action, change };
        let decided = tokio::select! {
            biased;
            () = hurried.cancelled() => None,
            decided = self.scripts.decide(event.clone()) => Some(decided),
        };
        match decided {
            Some(decided) => decided.map(Item::Change),
            None => Some(Item::Change(self.scripts.give_up(event).await)),
        }
    }

    /// The next event of a lane. An empty lane is closed: whatever comes for its repo then is behind all that left it,
    /// which is on its way to the writer.
    fn next(&self, did: &Did) -> Option<Waiting> {
        let mut lanes = self.lock();
        let waiting = lanes.get_mut(did).and_then(|lane| lane.queue.pop_front());
        if waiting.is_none() {
            lanes.remove(did);
        }
        waiting
    }

    /// Ends all lanes. What waits comes again with the stream.
    pub(super) async fn finish(&self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Did, Lane>> {
        self.by_repo.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Item {
    /// The repo it belongs to.
    pub(super) fn did(&self) -> &Did {
        match self {
            Self::Change(change) => did_of(change),
            Self::Account(account) => &account.did,
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::future::BoxFuture;
    use tokio::sync::Semaphore;

    use super::super::testing::delete;
    use super::*;
    use crate::store::index::{AccountChange, AccountStatus, Change};
    use crate::store::lease::Term;

    /// Asks about everything, and answers `held` events only when it is told to.
    struct Slow {
        held: &'static str,
        go: Semaphore,
        given_up: Mutex<Vec<String>>,
    }

    impl RecordScripts for Slow {
        fn is_idle(&self) -> bool {
            false
        }

        fn wants(&self, _action: Action, _change: &Change) -> bool {
            true
        }

        fn decide(&self, event: RecordEvent) -> BoxFuture<'_, Option<Change>> {
            Box::pin(async move {
                if event.change.uri().did.as_str().ends_with(self.held) {
                    self.go.acquire().await.unwrap().forget();
                }
                Some(event.change)
            })
        }

        fn give_up(&self, event: RecordEvent) -> BoxFuture<'_, Change> {
            self.given_up.lock().unwrap().push(event.change.uri().to_string());
            Box::pin(async move { event.change })
        }
    }

    fn waiting(name: &str, rkey: &str) -> Waiting {
        let ticket = Ticket { term: Term::ALONE, chunk: 0, parts: 1, time_us: None };
        Waiting { item: Item::Change(delete(name, rkey, 1)), asks: Some(Action::Delete), ticket }
    }

    fn stage(most: usize) -> (Arc<Slow>, Arc<Lanes>, mpsc::Receiver<Message>) {
        let scripts = Arc::new(Slow { held: ":slow", go: Semaphore::new(0), given_up: Mutex::default() });
        let (writer, messages) = mpsc::channel(64);
        (Arc::clone(&scripts), Lanes::bounded(scripts, writer, most), messages)
    }

    async fn arrived(messages: &mut mpsc::Receiver<Message>) -> String {
        let Some(Message::Part(part)) = messages.recv().await else { panic!("no part") };
        match part.items.as_slice() {
            [Item::Change(change)] => change.uri().to_string().replace("at://did:plc:", ""),
            [Item::Account(account)] => account.did.to_string(),
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn a_slow_repo_holds_up_itself_alone_and_keeps_its_order() {
        let (scripts, lanes, mut messages) = stage(100);
        lanes.add(vec![waiting("slow", "k1")]).await;
        assert!(lanes.is_busy(waiting("slow", "x").item.did()));
        // An account event waits behind its repo's records.
        let account =
            AccountChange { did: waiting("slow", "x").item.did().clone(), status: AccountStatus::Deleted };
        let behind = Waiting { item: Item::Account(account), asks: None, ..waiting("slow", "x") };
        lanes.add(vec![waiting("quick", "k1"), waiting("slow", "k2"), behind, waiting("quick", "k2")]).await;
        assert_eq!(arrived(&mut messages).await, "quick/app.example.note/k1");
        assert_eq!(arrived(&mut messages).await, "quick/app.example.note/k2");
        assert!(messages.try_recv().is_err());

        scripts.go.add_permits(2);
        assert_eq!(arrived(&mut messages).await, "slow/app.example.note/k1");
        assert_eq!(arrived(&mut messages).await, "slow/app.example.note/k2");
        assert_eq!(arrived(&mut messages).await, "did:plc:slow");
        lanes.finish().await;
        assert!(!lanes.is_busy(waiting("slow", "x").item.did()));
    }

    #[tokio::test]
    async fn a_repo_that_floods_its_lane_goes_on_without_its_script() {
        let (scripts, lanes, mut messages) = stage(3);
        for rkey in ["k1", "k2", "k3"] {
            lanes.add(vec![waiting("slow", rkey)]).await;
        }
        lanes.add(vec![waiting("quick", "k1")]).await;
        assert!(scripts.given_up.lock().unwrap().iter().all(|uri| !uri.contains("slow")));
        lanes.add(vec![waiting("slow", "k4")]).await;
        let mut seen = Vec::new();
        for _ in 0..5 {
            seen.push(arrived(&mut messages).await);
        }
        let slow: Vec<_> = seen.iter().filter(|uri| uri.starts_with("slow")).collect();
        let in_order = ["k1", "k2", "k3", "k4"].map(|rkey| format!("slow/app.example.note/{rkey}"));
        assert_eq!(slow, in_order.iter().collect::<Vec<_>>());
        lanes.finish().await;
    }

    #[tokio::test]
    async fn what_waits_at_the_end_is_not_written() {
        let (_scripts, lanes, mut messages) = stage(100);
        lanes.add(vec![waiting("slow", "k1")]).await;
        lanes.finish().await;
        assert!(messages.try_recv().is_err());
    }
}
