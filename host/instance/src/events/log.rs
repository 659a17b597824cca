//! Queues events without blocking and writes them to the store in batches.
//!
//! A batch is kept until it is stored. While the database is unavailable the queue fills up; when it is full, new events
//! are dropped and counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};

use super::{Event, requester};
use belvedere_base::clock::Clock;
use belvedere_base::random::Random;
use belvedere_storage::store::events::{self, EventRow};
use belvedere_storage::store::{Db, StoreError};

/// Events waiting for the writer. Beyond it (a script that logs in a loop, on a slow disk) events are dropped and
/// counted, so that neither memory nor the duration of requests grows.
const QUEUE: usize = 8192;

/// Bytes of events waiting for the writer. A full queue of ordinary events takes half of it.
const QUEUE_BYTES: usize = 16 << 20;

/// Rows in one insert: enough to make a flood cheap, few enough to keep the transaction short.
const BATCH: usize = 256;

/// Bytes in one insert of several rows: some milliseconds of SQLite's single writer, which indexing needs too.
const BATCH_BYTES: usize = 512 << 10;

/// Time that the writer waits for more events before it writes, so that events share a transaction. A flush ends the
/// wait.
const BATCH_WAIT: Duration = Duration::from_millis(20);

/// Wait before a batch is stored again after a failure; doubles up to [`MAX_RETRY_WAIT`].
const RETRY_WAIT: Duration = Duration::from_millis(100);
const MAX_RETRY_WAIT: Duration = Duration::from_secs(2);

/// Time that [`EventLog::flush`] waits. A healthy database needs milliseconds, an unavailable one may need hours.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(5);

/// Bytes of a queued event without its texts.
const ROW_BYTES: usize = 256;

enum Message {
    Event(Box<EventRow>),
    /// Answered once all earlier messages are in the store.
    Flush(oneshot::Sender<()>),
}

/// The counts of the recorders and the writer.
#[derive(Debug, Default)]
struct Counts {
    /// Events that are not stored yet, and their bytes.
    waiting: AtomicUsize,
    waiting_bytes: AtomicUsize,
    lost: AtomicU64,
    /// Failed attempts to store a batch.
    failures: AtomicU64,
}

impl Counts {
    /// Returns how many events were lost before.
    fn lose(&self, count: usize) -> u64 {
        metrics::counter!("belvedere_events_lost_total").increment(count as u64);
        self.lost.fetch_add(count as u64, Ordering::Relaxed)
    }
}

/// Records events. Cheap to clone.
#[derive(Clone)]
pub struct EventLog {
    sender: mpsc::Sender<Message>,
    counts: Arc<Counts>,
    clock: Clock,
    random: Random,
    verbose: Arc<AtomicBool>,
    /// Changes when events were stored.
    stored: watch::Receiver<()>,
}

impl std::fmt::Debug for EventLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EventLog").field("counts", &self.counts).finish_non_exhaustive()
    }
}

impl EventLog {
    /// Starts the writer task. It writes everything and ends when the last clone of the log is dropped.
    pub fn start(db: Db, clock: Clock, random: Random) -> (Self, JoinHandle<()>) {
        let (sender, receiver) = mpsc::channel(QUEUE);
        let counts = Arc::<Counts>::default();
        let (stored_sender, stored) = watch::channel(());
        let writer = Writer { db, counts: Arc::clone(&counts), stored: stored_sender };
        let writer = tokio::spawn(writer.run(receiver));
        (Self { sender, counts, clock, random, verbose: Arc::default(), stored }, writer)
    }

    /// Records an event without waiting. When the queue is full, the event is dropped and counted, and a warning is
    /// logged.
    pub fn record(&self, event: Event) {
        if !self.send(Box::new(self.row(event))) {
            let lost = self.counts.lose(1) + 1;
            if lost.is_power_of_two() {
                tracing::warn!(lost, "the event log can't keep up: events are being lost");
            }
        }
    }

    /// Stores an event before it returns, for what must not happen without a trace.
    ///
    /// # Errors
    /// When the event is not stored.
    pub async fn store(&self, db: &Db, event: Event) -> Result<(), StoreError> {
        events::insert(db, &[self.row(event)]).await
    }

    fn row(&self, event: Event) -> EventRow {
        let described = event.describe();
        EventRow {
            id: self.random.uuid(),
            event_type: described.event_type.to_owned(),
            severity: described.severity,
            actor_did: described.actor_did,
            subject: described.subject,
            detail: described.detail.to_string(),
            created_at: self.clock.now(),
            requester: requester::current(),
        }
    }

    /// Queues an event; `false` when the queue is full. After the writer has ended, events are discarded without being
    /// counted as lost.
    fn send(&self, event: Box<EventRow>) -> bool {
        let bytes = bytes_of(&event);
        let sent = if self.counts.waiting_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes > QUEUE_BYTES {
            false
        } else {
            match self.sender.try_send(Message::Event(event)) {
                Ok(()) => {
                    self.counts.waiting.fetch_add(1, Ordering::Relaxed);
                    return true;
                }
                Err(mpsc::error::TrySendError::Full(_)) => false,
                Err(mpsc::error::TrySendError::Closed(_)) => true,
            }
        };
        self.counts.waiting_bytes.fetch_sub(bytes, Ordering::Relaxed);
        sent
    }

    /// Records an event only with `VERBOSE_EVENT_LOGGING`.
    pub fn record_verbose(&self, event: impl FnOnce() -> Event) {
        if self.is_verbose() {
            self.record(event());
        }
    }

    /// Notifies whenever this host has stored events.
    pub fn subscribe(&self) -> watch::Receiver<()> {
        self.stored.clone()
    }

    pub fn is_verbose(&self) -> bool {
        self.verbose.load(Ordering::Relaxed)
    }

    /// Sets whether [`Self::record_verbose`] records events.
    pub fn set_verbose(&self, verbose: bool) {
        self.verbose.store(verbose, Ordering::Relaxed);
    }

    /// Waits until every event recorded so far is in the store, so that a client sees the events of its own requests,
    /// but at most [`FLUSH_TIMEOUT`]. Returns how many events are not stored.
    pub async fn flush(&self) -> usize {
        let (done, written) = oneshot::channel();
        let flush = async {
            if self.sender.send(Message::Flush(done)).await.is_ok() {
                // An error means that the writer has ended, so there is nothing to wait for.
                let _ = written.await;
            }
        };
        match tokio::time::timeout(FLUSH_TIMEOUT, flush).await {
            Ok(()) => 0,
            Err(_) => self.counts.waiting.load(Ordering::Relaxed),
        }
    }
}

fn bytes_of(row: &EventRow) -> usize {
    let optional = |text: &Option<String>| text.as_ref().map_or(0, String::len);
    ROW_BYTES + row.detail.len() + optional(&row.actor_did) + optional(&row.subject)
}

struct Writer {
    db: Db,
    counts: Arc<Counts>,
    stored: watch::Sender<()>,
}

impl Writer {
    async fn run(self, mut receiver: mpsc::Receiver<Message>) {
        let mut messages = Vec::with_capacity(BATCH);
        let mut rows = Vec::with_capacity(BATCH);
        let mut waiting = Vec::new();
        while receiver.recv_many(&mut messages, BATCH).await > 0 {
            gather(&mut receiver, &mut messages).await;
            for message in messages.drain(..) {
                match message {
                    Message::Event(event) => rows.push(*event),
                    Message::Flush(done) => waiting.push(done),
                }
            }
            for batch in batches(&rows) {
                self.store(batch).await;
                self.counts.waiting.fetch_sub(batch.len(), Ordering::Relaxed);
                let bytes = batch.iter().map(bytes_of).sum();
                self.counts.waiting_bytes.fetch_sub(bytes, Ordering::Relaxed);
            }
            if !rows.is_empty() {
                self.stored.send_replace(());
            }
            rows.clear();
            for done in waiting.drain(..) {
                // Fails when the flush was cancelled.
                let _ = done.send(());
            }
        }
    }

    /// Stores a batch, and retries until the database accepts it. Storing a row twice has no effect. A batch with a value
    /// that the database can't store is split until the row at fault is alone, which is dropped.
    async fn store(&self, batch: &[EventRow]) {
        let mut pieces = vec![batch];
        let (mut wait, mut failures) = (RETRY_WAIT, 0_u64);
        while let Some(piece) = pieces.pop() {
            let error = match events::insert(&self.db, piece).await {
                Ok(()) => continue,
                Err(error) => error,
            };
            if matches!(error, StoreError::BadValue(_)) && piece.len() > 1 {
                let (first, second) = piece.split_at(piece.len() / 2);
                pieces.extend([second, first]);
                continue;
            }
            if matches!(error, StoreError::BadValue(_)) || error.is_closed() {
                self.counts.lose(piece.len());
                tracing::error!(%error, count = piece.len(), "events could not be stored and are lost");
                continue;
            }
            pieces.push(piece);
            failures += 1;
            self.counts.failures.fetch_add(1, Ordering::Relaxed);
            if failures.is_power_of_two() {
                let waiting = self.counts.waiting.load(Ordering::Relaxed);
                tracing::warn!(%error, waiting, "events can't be stored; they are kept and stored later");
            }
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(MAX_RETRY_WAIT);
        }
        if failures > 0 {
            tracing::info!("events are stored again");
        }
    }
}

/// Receives messages for [`BATCH_WAIT`], or until a batch is full or a flush arrives.
async fn gather(receiver: &mut mpsc::Receiver<Message>, messages: &mut Vec<Message>) {
    let until = Instant::now() + BATCH_WAIT;
    while messages.len() < BATCH && !messages.iter().any(|message| matches!(message, Message::Flush(_))) {
        let missing = BATCH - messages.len();
        match timeout_at(until, receiver.recv_many(messages, missing)).await {
            Ok(count) if count > 0 => {}
            // The time is over, or all senders are dropped.
            _ => return,
        }
    }
}

/// Splits rows into batches of at most [`BATCH_BYTES`] bytes, or of one larger row.
fn batches(mut rows: &[EventRow]) -> impl Iterator<Item = &[EventRow]> {
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let fits = |row: &&EventRow| {
            bytes += bytes_of(row);
            bytes <= BATCH_BYTES
        };
        let count = rows.iter().take_while(fits).count().max(1).min(rows.len());
        let (batch, rest) = rows.split_at(count);
        rows = rest;
        (!batch.is_empty()).then_some(batch)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log_line(bytes: usize) -> Event {
        Event::ScriptLog { caller: None, trigger: "job.run:x".to_owned(), message: "x".repeat(bytes) }
    }

    #[tokio::test]
    async fn the_queue_is_bounded_in_bytes() {
        let directory = tempfile::tempdir().unwrap();
        let db = Db::open(&format!("sqlite://{}/test.db", directory.path().display()), 1).await.unwrap();
        db.migrate().await.unwrap();
        let (log, _writer) = EventLog::start(db.clone(), Clock::system(), Random::system());
        // Without an await the writer does not run meanwhile.
        for _ in 0..QUEUE {
            log.record(log_line(4_096));
        }
        let kept = QUEUE as u64 - log.counts.lost.load(Ordering::Relaxed);
        assert!(kept > 3_000 && kept <= (QUEUE_BYTES / 4_096) as u64, "{kept}");
        log.flush().await;
        assert_eq!(log.counts.waiting_bytes.load(Ordering::Relaxed), 0);
        let stored = events::list(&db, &events::EventFilter::default(), QUEUE as u32).await.unwrap();
        assert_eq!(stored.len() as u64, kept);
        log.record(log_line(1));
        log.flush().await;
        assert_eq!(log.counts.lost.load(Ordering::Relaxed), QUEUE as u64 - kept, "there is room again");
    }

    #[tokio::test]
    async fn a_batch_is_kept_until_the_database_accepts_it() {
        let directory = tempfile::tempdir().unwrap();
        let db = Db::open(&format!("sqlite://{}/test.db", directory.path().display()), 1).await.unwrap();
        db.migrate().await.unwrap();
        events::refuse_writes(&db, true).await;
        let (log, _writer) = EventLog::start(db.clone(), Clock::system(), Random::system());
        for _ in 0..BATCH + 10 {
            log.record(log_line(1));
        }
        while log.counts.failures.load(Ordering::Relaxed) < 2 {
            tokio::task::yield_now().await;
        }
        events::refuse_writes(&db, false).await;
        assert_eq!(log.flush().await, 0);
        let stored = events::list(&db, &events::EventFilter::default(), QUEUE as u32).await.unwrap();
        assert_eq!(stored.len(), BATCH + 10);
        assert_eq!(log.counts.lost.load(Ordering::Relaxed), 0);
        // A closed database is the end of the process, not an outage.
        db.close().await;
        log.record(log_line(1));
        assert_eq!(log.flush().await, 0);
        assert_eq!(log.counts.lost.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn inserts_are_bounded_in_bytes() {
        let row = |bytes: usize| EventRow {
            id: String::new(),
            event_type: String::new(),
            severity: events::Severity::Info,
            actor_did: None,
            subject: None,
            detail: "x".repeat(bytes - ROW_BYTES),
            created_at: belvedere_base::clock::Timestamp(0),
            requester: events::Requester::default(),
        };
        let of = |sizes: &[usize]| {
            let rows: Vec<_> = sizes.iter().map(|size| row(*size)).collect();
            batches(&rows).map(<[EventRow]>::len).collect::<Vec<_>>()
        };
        assert_eq!(of(&[]), [0; 0]);
        assert_eq!(of(&[1_000, 1_000]), [2]);
        assert_eq!(of(&[BATCH_BYTES, 1_000, BATCH_BYTES + 1, 1_000]), [1, 1, 1, 1]);
        assert_eq!(of(&[BATCH_BYTES / 2, BATCH_BYTES / 2, 1_000]), [2, 1]);
    }
}
