//! The only writer of the index: gathers changes into batches and commits each with the cursor that it allows.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::lexicons::Registry;
use belvedere_base::clock::Clock;
use belvedere_protocol::atproto::RecordUri;
use belvedere_storage::store::index::{AccountChange, Batch, Change};
use belvedere_storage::store::lease::Term;

use super::apply::validate;
use super::batch::PendingBatch;
use super::commit::{CommitError, Committer, Sink};
use super::message::{CURSOR_SOURCE, InitialCursor, LocalAccount, LocalWrite, Message, Refused, Urgency};
use super::settings::Timing;
use super::watermark::Watermark;

/// Messages that may wait for the writer. Most are parts of a chunk, which is limited in frames and bytes.
pub(super) const WRITER_QUEUE: usize = 16;

/// Time after it is due for which a batch may still be filled with events that are queued already. Under load this
/// makes batches large, which costs less per row; messages without rows never fill one.
const MAX_OVERDUE: Duration = Duration::from_millis(250);

/// Writes local changes to the index through the same writer as the stream's. Cheap to clone.
#[derive(Clone, Debug)]
pub struct WriterHandle {
    queue: mpsc::Sender<Message>,
    /// Validates what the callers have not. Here, and not in the writer, so that large records delay only themselves.
    registry: Arc<Registry>,
}

/// The writer has been shut down; the change was not stored.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
#[error("the index writer has stopped")]
pub struct WriterClosed;

impl WriterHandle {
    pub(super) fn new(queue: mpsc::Sender<Message>, registry: Arc<Registry>) -> Self {
        Self { queue, registry }
    }

    /// Returns when the change is committed, or was ignored because the index has a newer `rev`. The batch with the
    /// change is committed at once, without waiting for more changes.
    ///
    /// # Errors
    /// When the writer has been shut down.
    pub async fn submit(&self, change: Change) -> Result<(), WriterClosed> {
        self.submit_commit(vec![change]).await
    }

    /// Like [`WriterHandle::submit`], for the changes of one commit to a repo. They are committed in one transaction.
    ///
    /// # Errors
    /// When the writer has been shut down.
    pub async fn submit_commit(&self, changes: Vec<Change>) -> Result<(), WriterClosed> {
        self.send(changes, Urgency::Immediate).await.map(drop)
    }

    /// Like [`WriterHandle::submit`], for many changes that may wait a moment to share a transaction with others. They
    /// are committed together, in one transaction. Returns the records that the database can't store, of these changes
    /// and of others in the transaction.
    ///
    /// # Errors
    /// When the writer has been shut down.
    pub async fn submit_all(&self, changes: Vec<Change>) -> Result<Arc<[RecordUri]>, WriterClosed> {
        self.send(changes, Urgency::Shared).await
    }

    /// Stores an account's status that did not come from the stream. Returns when it is committed.
    ///
    /// # Errors
    /// When the writer has been shut down.
    pub async fn submit_account(&self, change: AccountChange) -> Result<(), WriterClosed> {
        let (ack, done) = oneshot::channel();
        let local = LocalAccount { change, ack };
        self.queue.send(Message::LocalAccount(local)).await.map_err(|_| WriterClosed)?;
        done.await.map(drop).map_err(|_| WriterClosed)
    }

    async fn send(&self, mut changes: Vec<Change>, urgency: Urgency) -> Result<Refused, WriterClosed> {
        if changes.is_empty() {
            return Ok(Refused::default());
        }
        validate(&self.registry, &mut changes);
        let (ack, done) = oneshot::channel();
        let write = LocalWrite { changes, urgency, ack };
        self.queue.send(Message::LocalWrite(Box::new(write))).await.map_err(|_| WriterClosed)?;
        done.await.map_err(|_| WriterClosed)
    }
}

pub(super) struct Writer<S> {
    pub queue: mpsc::Receiver<Message>,
    pub committer: Committer<S>,
    pub clock: Clock,
    pub timing: Timing,
    /// Makes the writer commit what is queued and end.
    pub stop: CancellationToken,
    /// Tells the reader which term is over.
    pub superseded: watch::Sender<Option<Term>>,
}

impl<S: Sink> Writer<S> {
    pub(super) async fn run(mut self) {
        let mut progress = TermProgress::default();
        let mut carry = None;
        let mut open = true;
        while open || carry.is_some() {
            let mut pending = PendingBatch::new();
            open = self.gather(&mut pending, &mut carry, &mut progress).await;
            pending.seal(&mut progress.watermark, CURSOR_SOURCE, self.clock.now());
            let PendingBatch { batch, local, local_accounts: accounts, acks, initial_cursor_acks, .. } =
                pending;
            let mut committed = self.commit(batch).await;
            if matches!(committed, Err(CommitError::Superseded)) {
                tracing::warn!(
                    "another host follows the stream now and will replay the events that are still queued here"
                );
                progress.is_over = true;
                self.superseded.send_replace(Some(progress.term));
                drop(initial_cursor_acks);
                // Local writes don't depend on the term, so commit them alone. Repeating one has no effect.
                let local = Batch { changes: local, accounts, now: self.clock.now(), ..Batch::default() };
                committed = self.commit(local).await;
            } else {
                acknowledge(initial_cursor_acks, &());
            }
            let Ok(refused) = committed else {
                tracing::warn!(
                    "shut down while the database was unreachable; the stream resumes from the committed cursor"
                );
                return;
            };
            acknowledge(acks, &refused);
        }
    }

    async fn commit(&self, batch: Batch) -> Result<Refused, CommitError> {
        let changes = batch.changes.len();
        if changes == 0 && batch.accounts.is_empty() && batch.repairs.is_empty() && batch.cursor.is_none() {
            return Ok(Refused::default());
        }
        metrics::histogram!("belvedere_index_batch_changes").record(changes as f64);
        let started = Instant::now();
        let refused = self.committer.commit(batch).await?;
        metrics::histogram!("belvedere_index_commit_seconds").record(started.elapsed().as_secs_f64());
        Ok(refused.into())
    }

    /// Fills a batch until it is full or due. Under load the queue fills it without any wait, for at most [`MAX_OVERDUE`].
    /// Returns `false` when the queue is closed.
    async fn gather(
        &mut self,
        pending: &mut PendingBatch,
        carry: &mut Option<Message>,
        progress: &mut TermProgress,
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
                Some(term) if !progress.accepts(term) => continue,
                term => pending.term = pending.term.or(term),
            }
            let wait = match message {
                Message::Part(part) => {
                    *carry = pending.push_part(part).map(Message::Part);
                    // A cursor alone can wait longer.
                    if pending.has_no_rows() { self.timing.cursor_interval } else { self.timing.commit_delay }
                }
                Message::LocalWrite(local) => {
                    let LocalWrite { changes, urgency, ack } = *local;
                    for change in changes {
                        pending.local.push(change.clone());
                        pending.push_change(change);
                    }
                    pending.acks.push(ack);
                    match urgency {
                        Urgency::Immediate => Duration::ZERO,
                        Urgency::Shared => self.timing.commit_delay,
                    }
                }
                Message::LocalAccount(local) => {
                    *carry = pending.push_account(local).map(Message::LocalAccount);
                    self.timing.commit_delay
                }
                Message::InitialCursor(InitialCursor { cursor, ack, .. }) => {
                    pending.initial_cursor = Some(cursor);
                    pending.initial_cursor_acks.push(ack);
                    Duration::ZERO
                }
            };
            let now = Instant::now();
            let by = due.map_or(now + wait, |due| due.min(now + wait));
            if carry.is_some() || pending.is_full() || by + MAX_OVERDUE <= now {
                return true;
            }
            due = Some(by);
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

/// Notifies the waiting callers that the batch is committed.
fn acknowledge<T: Clone>(acks: Vec<oneshot::Sender<T>>, outcome: &T) {
    for ack in acks {
        // Fails when the caller no longer waits.
        let _ = ack.send(outcome.clone());
    }
}

impl Message {
    /// The term it belongs to; `None` for a local write.
    fn term(&self) -> Option<Term> {
        match self {
            Self::Part(part) => Some(part.ticket.term),
            Self::InitialCursor(initial) => Some(initial.term),
            Self::LocalWrite(_) | Self::LocalAccount(_) => None,
        }
    }
}

/// The writer's state of one term.
#[derive(Debug, Default)]
struct TermProgress {
    term: Term,
    watermark: Watermark,
    /// Whether another host has begun a later term.
    is_over: bool,
}

impl TermProgress {
    /// Whether messages of `term` are still to be written. A later term replaces this state.
    fn accepts(&mut self, term: Term) -> bool {
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
