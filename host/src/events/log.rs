//! Takes events from anywhere and writes them in batches.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use super::Event;
use crate::clock::Clock;
use crate::random::Random;
use crate::store::Db;
use crate::store::events::{self, EventRow};

/// Events waiting for the writer. A flood beyond it (a script logging in a loop on a slow disk) loses events,
/// counted, rather than memory or the requests' time.
const QUEUE: usize = 8192;

/// Rows in one insert: enough to make a flood cheap, few enough to keep the transaction short.
const BATCH: usize = 256;

enum Message {
    Event(Box<EventRow>),
    /// Answered once everything sent before it is in the store.
    Flush(oneshot::Sender<()>),
}

/// The way into the event log. Cheap to clone.
#[derive(Clone)]
pub struct EventLog {
    sender: mpsc::Sender<Message>,
    lost: Arc<AtomicU64>,
    clock: Clock,
    random: Random,
    verbose: Arc<AtomicBool>,
}

impl std::fmt::Debug for EventLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EventLog").field("lost", &self.lost).finish_non_exhaustive()
    }
}

impl EventLog {
    /// Starts the writer. It ends, with everything written, when the last clone of the log is gone.
    pub fn start(db: Db, clock: Clock, random: Random) -> (Self, JoinHandle<()>) {
        let (sender, receiver) = mpsc::channel(QUEUE);
        let writer = tokio::spawn(write(db, receiver));
        (Self { sender, lost: Arc::default(), clock, random, verbose: Arc::default() }, writer)
    }

    /// Logs an event. Never waits and never fails: a full queue drops the event, counts it and says so.
    pub fn record(&self, event: Event) {
        let described = event.describe();
        let event = Box::new(EventRow {
            id: self.random.uuid(),
            event_type: described.event_type.to_owned(),
            severity: described.severity,
            actor_did: described.actor_did,
            subject: described.subject,
            detail: described.detail.to_string(),
            created_at: self.clock.now(),
        });
        if let Err(mpsc::error::TrySendError::Full(_)) = self.sender.try_send(Message::Event(event)) {
            let lost = self.lost.fetch_add(1, Ordering::Relaxed) + 1;
            metrics::counter!("belvedere_events_lost_total").increment(1);
            if lost.is_power_of_two() {
                tracing::warn!(lost, "the event log can't keep up: events are being lost");
            }
        }
    }

    /// Logs an event that is kept only with `VERBOSE_EVENT_LOGGING`.
    pub fn record_verbose(&self, event: impl FnOnce() -> Event) {
        if self.is_verbose() {
            self.record(event());
        }
    }

    pub fn is_verbose(&self) -> bool {
        self.verbose.load(Ordering::Relaxed)
    }

    /// Whether [`Self::record_verbose`] logs, from now on.
    pub fn set_verbose(&self, verbose: bool) {
        self.verbose.store(verbose, Ordering::Relaxed);
    }

    /// Waits until every event recorded so far is in the store, so that a reader sees what it caused.
    pub async fn flush(&self) {
        let (done, written) = oneshot::channel();
        if self.sender.send(Message::Flush(done)).await.is_ok() {
            // An error means that the writer ended, and then nothing is left to wait for.
            let _ = written.await;
        }
    }
}

async fn write(db: Db, mut receiver: mpsc::Receiver<Message>) {
    let mut messages = Vec::with_capacity(BATCH);
    let mut rows = Vec::with_capacity(BATCH);
    let mut waiting = Vec::new();
    while receiver.recv_many(&mut messages, BATCH).await > 0 {
        for message in messages.drain(..) {
            match message {
                Message::Event(event) => rows.push(*event),
                Message::Flush(done) => waiting.push(done),
            }
        }
        if !rows.is_empty() {
            if let Err(error) = events::insert(&db, &rows).await {
                metrics::counter!("belvedere_events_lost_total").increment(rows.len() as u64);
                tracing::error!(%error, count = rows.len(), "events could not be written and are lost");
            }
            rows.clear();
        }
        for done in waiting.drain(..) {
            // Whoever asked may have gone away.
            let _ = done.send(());
        }
    }
}
