//! The one writer of the index: gathers changes, commits them in groups with the cursor they cover.

use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::clock::Clock;
use crate::store::index::{Batch, Change};
use crate::store::lease::Term;

use super::apply::Item;
use super::batch::Pending;
use super::commit::{Committer, Sink, Uncommitted};
use super::settings::Timing;
use super::watermark::{Ticket, Watermark};

/// Messages that may wait for the writer. Most are parts of a chunk, which is bounded in events and bytes.
pub(super) const WRITER_QUEUE: usize = 16;

/// The name under which the stream's cursor is stored. One for all servers: their cursors are times.
pub const CURSOR_SOURCE: &str = "jetstream";

#[derive(Debug)]
pub(super) enum Message {
    Part(Part),
    Local(Box<Local>),
    Begin(Begin),
}

/// One shard's share of a chunk, applied.
#[derive(Debug)]
pub(super) struct Part {
    pub ticket: Ticket,
    /// How many of its events come later, each as a part of its own.
    pub late: u32,
    pub items: Vec<Item>,
}

/// A change that someone waits for.
#[derive(Debug)]
pub(super) struct Local {
    change: Change,
    ack: oneshot::Sender<()>,
}

/// Where a stream without a stored cursor begins. Stored before the first event is asked for: killed before its
/// first commit, the stream comes back to the same place, not to a later "now".
#[derive(Debug)]
pub(super) struct Begin {
    pub term: Term,
    pub cursor: i64,
    pub ack: oneshot::Sender<()>,
}

/// Puts changes into the index through the same writer as the stream. Cheap to clone.
#[derive(Clone, Debug)]
pub struct WriterHandle {
    queue: mpsc::Sender<Message>,
}

/// The writer has been shut down; the change was not stored.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
#[error("the index writer has stopped")]
pub struct WriterClosed;

impl WriterHandle {
    pub(super) fn new(queue: mpsc::Sender<Message>) -> Self {
        Self { queue }
    }

    /// Returns when the change is committed, or lost to a newer `rev`. It does not wait for company: the batch
    /// that holds it is committed at once.
    ///
    /// # Errors
    /// When the writer has been shut down.
    pub async fn submit(&self, change: Change) -> Result<(), WriterClosed> {
        let (ack, done) = oneshot::channel();
        self.queue.send(Message::Local(Box::new(Local { change, ack }))).await.map_err(|_| WriterClosed)?;
        done.await.map_err(|_| WriterClosed)
    }
}

pub(super) struct Writer<S> {
    pub queue: mpsc::Receiver<Message>,
    pub committer: Committer<S>,
    pub clock: Clock,
    pub timing: Timing,
    /// Take what is queued, commit it, end.
    pub stop: CancellationToken,
    /// The term that is over, for whoever still reads under it.
    pub superseded: watch::Sender<Option<Term>>,
}

impl<S: Sink> Writer<S> {
    pub(super) async fn run(mut self) {
        let mut stream = Following::default();
        let mut carry = None;
        let mut open = true;
        while open || carry.is_some() {
            let mut pending = Pending::new();
            open = self.gather(&mut pending, &mut carry, &mut stream).await;
            pending.seal(&mut stream.watermark, CURSOR_SOURCE, self.clock.now());
            let Pending { batch, local, acks, begun, .. } = pending;
            let mut committed = self.commit(batch).await;
            if committed == Err(Uncommitted::Superseded) {
                tracing::warn!(
                    "another host follows the stream by now; what is queued of it here is left to that one"
                );
                stream.is_over = true;
                self.superseded.send_replace(Some(stream.term));
                drop(begun);
                // What was written here is no part of the stream. Written twice it is the same.
                committed =
                    self.commit(Batch { changes: local, now: self.clock.now(), ..Batch::default() }).await;
            } else {
                answer(begun);
            }
            if committed.is_err() {
                tracing::warn!(
                    "shut down before the database came back; the stream resumes from the last cursor"
                );
                return;
            }
            answer(acks);
        }
    }

    async fn commit(&self, batch: Batch) -> Result<(), Uncommitted> {
        let changes = batch.changes.len();
        if changes == 0 && batch.accounts.is_empty() && batch.cursor.is_none() {
            return Ok(());
        }
        metrics::histogram!("belvedere_index_batch_changes").record(changes as f64);
        let started = Instant::now();
        self.committer.commit(batch).await?;
        metrics::histogram!("belvedere_index_commit_seconds").record(started.elapsed().as_secs_f64());
        Ok(())
    }

    /// Fills a batch until it is full or due. Under load it is filled from the queue without any wait. `false`
    /// when nothing more will come.
    async fn gather(
        &mut self,
        pending: &mut Pending,
        carry: &mut Option<Message>,
        stream: &mut Following,
    ) -> bool {
        let mut due: Option<Instant> = None;
        loop {
            let message = match carry.take() {
                Some(message) => message,
                None => match self.next(due).await {
                    Next::Message(message) => message,
                    Next::Due => return true,
                    Next::Closed => return false,
                },
            };
            match message.term() {
                Some(term) if pending.term.is_some_and(|other| other != term) => {
                    *carry = Some(message);
                    return true;
                }
                Some(term) if !stream.goes_on(term) => continue,
                term => pending.term = pending.term.or(term),
            }
            let wait = match message {
                Message::Part(part) => {
                    *carry = pending.push_part(part).map(Message::Part);
                    // A cursor alone is in no hurry.
                    if pending.has_no_rows() { self.timing.cursor_interval } else { self.timing.commit_delay }
                }
                Message::Local(local) => {
                    let Local { change, ack } = *local;
                    pending.local.push(change.clone());
                    pending.push_change(change);
                    pending.acks.push(ack);
                    Duration::ZERO
                }
                Message::Begin(Begin { cursor, ack, .. }) => {
                    pending.begin = Some(cursor);
                    pending.begun.push(ack);
                    Duration::ZERO
                }
            };
            if carry.is_some() || pending.is_full() {
                return true;
            }
            let by = Instant::now() + wait;
            due = Some(due.map_or(by, |due| due.min(by)));
        }
    }

    async fn next(&mut self, due: Option<Instant>) -> Next {
        loop {
            match self.queue.try_recv() {
                Ok(message) => return Next::Message(message),
                Err(mpsc::error::TryRecvError::Disconnected) => return Next::Closed,
                Err(mpsc::error::TryRecvError::Empty) if due.is_some_and(|due| due <= Instant::now()) => {
                    return Next::Due;
                }
                Err(mpsc::error::TryRecvError::Empty) => {}
            }
            let expired = async {
                match due {
                    Some(due) => tokio::time::sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                message = self.queue.recv() => return message.map_or(Next::Closed, Next::Message),
                () = self.stop.cancelled(), if !self.queue.is_closed() => self.queue.close(),
                () = expired => return Next::Due,
            }
        }
    }
}

/// Tells those who wait for it that it is done.
fn answer(acks: Vec<oneshot::Sender<()>>) {
    for ack in acks {
        // Whoever asked may have gone.
        let _ = ack.send(());
    }
}

impl Message {
    /// Whose part of the stream it is.
    fn term(&self) -> Option<Term> {
        match self {
            Self::Part(part) => Some(part.ticket.term),
            Self::Begin(begin) => Some(begin.term),
            Self::Local(_) => None,
        }
    }
}

/// The stream under one lease.
#[derive(Debug, Default)]
struct Following {
    term: Term,
    watermark: Watermark,
    /// Another host has begun a later term.
    is_over: bool,
}

impl Following {
    /// Whether something of this term is still to be written. With a later term everything begins anew.
    fn goes_on(&mut self, term: Term) -> bool {
        if term > self.term {
            *self = Self { term, ..Self::default() };
        }
        term == self.term && !self.is_over
    }
}

enum Next {
    Message(Message),
    Due,
    Closed,
}
