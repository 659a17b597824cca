//! Spreads repos over tasks. All events of one DID pass through the same shard, in order; the shards feed one
//! writer. With a single shard there is no task and no queue: the reader does the work itself.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use crate::atproto::Did;
use crate::store::lease::Term;

use super::apply::Applier;
use super::envelope::Envelope;
use super::lanes::{Lanes, Waiting};
use super::scripts::RecordScripts;
use super::tally::Tally;
use super::watermark::Ticket;
use super::writer::{Begin, Message, Part};

/// Parts that may wait before one shard. A part is a slice of a chunk, and a chunk is bounded in events and bytes
/// (`intake`), so this bounds memory: a slow shard holds the socket back.
const SHARD_QUEUE: usize = 4;

/// One shard's slice of a chunk.
#[derive(Debug)]
struct Slice {
    ticket: Ticket,
    envelopes: Vec<Envelope>,
}

/// The writer is gone, so nothing more can be taken in.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Closed;

pub(super) struct Shards {
    term: Term,
    worker: Worker,
    /// Empty: work is done inline.
    queues: Vec<mpsc::Sender<Slice>>,
    tasks: Vec<JoinHandle<()>>,
}

impl Shards {
    /// Starts `count` shards that feed `writer`, past the lanes of `scripts` where these want an event.
    pub(super) fn start(
        count: usize,
        applier: Applier,
        scripts: Arc<dyn RecordScripts>,
        writer: mpsc::Sender<Message>,
        term: Term,
    ) -> Self {
        let lanes = Lanes::new(scripts, writer.clone());
        let worker = Worker { applier: Arc::new(applier), lanes, writer };
        let mut shards = Self { term, worker, queues: Vec::new(), tasks: Vec::new() };
        if count > 1 {
            for _ in 0..count {
                let (queue, slices) = mpsc::channel(SHARD_QUEUE);
                shards.queues.push(queue);
                shards.tasks.push(tokio::spawn(run(slices, shards.worker.clone())));
            }
        }
        shards
    }

    /// Hands over one chunk; `envelopes` is left empty. Waits while queues are full.
    pub(super) async fn submit(
        &self,
        chunk: u64,
        time_us: Option<i64>,
        envelopes: &mut Vec<Envelope>,
        tally: &mut Tally,
    ) -> Result<(), Closed> {
        if self.queues.is_empty() || envelopes.is_empty() {
            let ticket = Ticket { term: self.term, chunk, parts: 1, time_us };
            return self.worker.work(ticket, envelopes.drain(..), tally).await;
        }
        let mut slices: Vec<Vec<Envelope>> = self.queues.iter().map(|_| Vec::new()).collect();
        for envelope in envelopes.drain(..) {
            let shard = shard_of(envelope.did(), slices.len());
            slices[shard].push(envelope);
        }
        let parts = slices.iter().filter(|slice| !slice.is_empty()).count() as u32;
        let ticket = Ticket { term: self.term, chunk, parts, time_us };
        for (queue, envelopes) in self.queues.iter().zip(slices) {
            if !envelopes.is_empty() {
                queue.send(Slice { ticket, envelopes }).await.map_err(|_| Closed)?;
            }
        }
        Ok(())
    }

    /// Stores where a stream without a cursor begins. Returns when it is committed.
    pub(super) async fn begin(&self, cursor: i64) -> Result<(), Closed> {
        let (ack, done) = oneshot::channel();
        self.worker
            .writer
            .send(Message::Begin(Begin { term: self.term, cursor, ack }))
            .await
            .map_err(|_| Closed)?;
        done.await.map_err(|_| Closed)
    }

    /// Lets the shards finish what they have.
    pub(super) async fn finish(self) {
        drop(self.queues);
        for task in self.tasks {
            if let Err(error) = task.await {
                tracing::error!(%error, "a shard of the stream died");
            }
        }
        self.worker.lanes.finish().await;
    }
}

/// What every shard has.
#[derive(Clone)]
struct Worker {
    applier: Arc<Applier>,
    lanes: Arc<Lanes>,
    writer: mpsc::Sender<Message>,
}

impl Worker {
    /// Applies the events of one part and sends them to the writer; those that a script is asked about, and those of a
    /// repo behind them, go there through its lane.
    async fn work(
        &self,
        ticket: Ticket,
        envelopes: impl ExactSizeIterator<Item = Envelope>,
        tally: &mut Tally,
    ) -> Result<(), Closed> {
        let (mut items, mut waiting) = (Vec::with_capacity(envelopes.len()), Vec::new());
        let mut behind = HashSet::new();
        for envelope in envelopes {
            let action = envelope.action();
            let Some(item) = self.applier.apply(envelope, tally) else { continue };
            if self.lanes.is_idle() && waiting.is_empty() {
                items.push(item);
                continue;
            }
            let asks = action.filter(|_| self.lanes.wants(action, &item));
            if asks.is_some() || behind.contains(item.did()) || self.lanes.is_busy(item.did()) {
                behind.insert(item.did().clone());
                waiting.push(Waiting { item, asks, ticket });
            } else {
                items.push(item);
            }
        }
        let part = Part { ticket, late: waiting.len() as u32, items };
        self.writer.send(Message::Part(part)).await.map_err(|_| Closed)?;
        self.lanes.add(waiting).await;
        Ok(())
    }
}

async fn run(mut slices: mpsc::Receiver<Slice>, worker: Worker) {
    let mut tally = Tally::default();
    while let Some(Slice { ticket, envelopes }) = slices.recv().await {
        let done = worker.work(ticket, envelopes.into_iter(), &mut tally).await;
        tally.flush();
        if done.is_err() {
            return;
        }
    }
}

/// The same for as long as this process lives. Who picks DIDs to meet in one shard makes his own repos slower, no more.
fn shard_of(did: &Did, shards: usize) -> usize {
    let mut hasher = DefaultHasher::new();
    did.as_str().hash(&mut hasher);
    hasher.finish() as usize % shards
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_did_stays_in_its_shard_and_dids_spread() {
        let mut hits = [0; 4];
        for i in 0..1000 {
            let did = Did::try_from(format!("did:plc:{i:024}").as_str()).unwrap();
            assert_eq!(shard_of(&did, 4), shard_of(&did, 4));
            hits[shard_of(&did, 4)] += 1;
        }
        assert!(hits.iter().all(|n| *n > 150), "{hits:?}");
    }
}
