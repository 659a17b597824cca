//! A batch that is due ends, even when the queue is never empty.

use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use crate::indexing::commit::Sink;
use crate::indexing::message::{LocalWrite, Message, Part, Urgency};
use crate::indexing::testing::delete;
use crate::indexing::watermark::{Reach, Ticket};
use belvedere_base::clock::Timestamp;
use belvedere_storage::store::StoreError;
use belvedere_storage::store::cursors::StoredCursor;
use belvedere_storage::store::gaps::Gap;
use belvedere_storage::store::index::{ApplyReport, Batch};
use belvedere_storage::store::lease::{Lease, Term};

use super::start_writer;

/// The time that passes for each message that the writer takes.
const STEP: Duration = Duration::from_millis(10);

/// Messages without rows: ten seconds of them.
const MESSAGES: u64 = 1_000;

/// Records when each batch was committed, and its changes.
#[derive(Clone, Default)]
struct Commits(Arc<Mutex<Vec<(Instant, usize)>>>);

impl Sink for Commits {
    async fn apply(&self, batch: &Batch) -> Result<ApplyReport, StoreError> {
        self.0.lock().unwrap().push((Instant::now(), batch.changes.len()));
        Ok(ApplyReport::default())
    }

    async fn stored_cursor(&self) -> Result<Option<StoredCursor>, StoreError> {
        Ok(None)
    }

    async fn store_gap(&self, _gap: &Gap, _now: Timestamp) -> Result<(), StoreError> {
        Ok(())
    }

    fn lease(&self) -> Lease {
        Lease::alone()
    }
}

/// Advances the clock when it is woken, without a wait: the writer takes one message after the other, and no other task
/// runs in between.
struct Advance;

impl Wake for Advance {
    fn wake(self: Arc<Self>) {
        // The rest of the future only lets other tasks run.
        let _ = tokio::time::advance(STEP).now_or_never();
    }
}

fn without_rows(chunk: u64) -> Message {
    // It does not move the cursor either.
    let ticket = Ticket { term: Term::numbered(1), chunk, parts: 1, reach: Reach::default() };
    Message::Part(Part { ticket, deferred: 0, changes: Vec::new() })
}

#[tokio::test(start_paused = true)]
async fn messages_without_rows_delay_a_write_only_for_a_moment() {
    let (queue, messages) = mpsc::channel(MESSAGES as usize + 1);
    let (ack, acknowledged) = oneshot::channel();
    let write = LocalWrite { changes: vec![delete("a", "k", 1)], urgency: Urgency::Immediate, ack };
    queue.try_send(Message::LocalWrite(Box::new(write))).unwrap();
    for chunk in 0..MESSAGES {
        queue.try_send(without_rows(chunk)).unwrap();
    }
    // The queue is full. Each message that the writer takes wakes the next of those that wait for a place.
    let waker = Waker::from(Arc::new(Advance));
    let mut waiting: Vec<_> = (0..MESSAGES).map(|_| Box::pin(queue.reserve())).collect();
    for place in &mut waiting {
        assert!(matches!(place.poll_unpin(&mut Context::from_waker(&waker)), Poll::Pending));
    }

    let (commits, started) = (Commits::default(), Instant::now());
    start_writer(commits.clone(), messages);
    acknowledged.await.unwrap();

    let (at, changes) = commits.0.lock().unwrap()[0];
    let took = at - started;
    assert_eq!(changes, 1);
    assert!(took >= Duration::from_millis(100), "what is queued already is in the batch: {took:?}");
    assert!(took <= Duration::from_millis(300), "the write waited for {took:?}");
}
