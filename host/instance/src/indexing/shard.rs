//! Splits chunks by DID over several tasks, the shards. All events of a DID pass through the same shard, in order. With
//! a single shard there is no task and no queue: the reader's task does the work itself.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use belvedere_base::hand_over_thread::hand_over_thread;
use belvedere_protocol::atproto::Did;
use belvedere_storage::store::lease::Term;

use super::apply::RecordChecker;
use super::change::{ClaimedRecord, IndexChange};
use super::message::{InitialCursor, Message, Part};
use super::repo_queues::{Limits, RepoQueues, Step};
use super::scripts::RecordScriptRunner;
use super::tally::Tally;
use super::watermark::{Reach, Ticket};

/// Slices that may wait for one shard. Chunks are limited in frames and bytes (`intake`), so this bounds the memory.
/// When a shard's queue is full, the socket is not read.
const SHARD_QUEUE: usize = 4;

/// The changes of a chunk that go to one shard.
#[derive(Debug)]
struct Slice {
    ticket: Ticket,
    changes: Vec<IndexChange<ClaimedRecord>>,
}

/// The writer has ended, so the pipeline accepts nothing more.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PipelineClosed;

pub(super) struct Shards {
    term: Term,
    worker: ShardWorker,
    /// Empty with a single shard: `submit` does the work itself.
    queues: Vec<mpsc::Sender<Slice>>,
    tasks: Vec<JoinHandle<()>>,
}

impl Shards {
    /// Starts `count` shards. They send changes to `writer`, directly or through the queues of the repos.
    pub(super) fn start(
        count: usize,
        limits: Limits,
        checker: RecordChecker,
        scripts: Arc<dyn RecordScriptRunner>,
        writer: mpsc::Sender<Message>,
        term: Term,
    ) -> Self {
        let checker = Arc::new(checker);
        let queues = RepoQueues::new(Arc::clone(&checker), scripts, writer.clone(), limits);
        let worker = ShardWorker { checker, queues, writer };
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

    /// Splits one chunk over the shards; `changes` is left empty. Waits while queues are full.
    pub(super) async fn submit(
        &self,
        chunk: u64,
        reach: Reach,
        changes: &mut Vec<IndexChange<ClaimedRecord>>,
        tally: &mut Tally,
    ) -> Result<(), PipelineClosed> {
        if self.queues.is_empty() || changes.is_empty() {
            let ticket = Ticket { term: self.term, chunk, parts: 1, reach };
            return self.worker.work(ticket, changes, tally).await;
        }
        let mut slices: Vec<Vec<_>> = self.queues.iter().map(|_| Vec::new()).collect();
        for change in changes.drain(..) {
            let shard = shard_of(change.did(), slices.len());
            slices[shard].push(change);
        }
        let parts = slices.iter().filter(|slice| !slice.is_empty()).count() as u32;
        let ticket = Ticket { term: self.term, chunk, parts, reach };
        for (queue, changes) in self.queues.iter().zip(slices) {
            if !changes.is_empty() {
                queue.send(Slice { ticket, changes }).await.map_err(|_| PipelineClosed)?;
            }
        }
        Ok(())
    }

    /// Stores the cursor at which a new stream starts. Returns when it is committed.
    pub(super) async fn store_initial_cursor(&self, cursor: i64) -> Result<(), PipelineClosed> {
        let (ack, done) = oneshot::channel();
        self.worker
            .writer
            .send(Message::InitialCursor(InitialCursor { term: self.term, cursor, ack }))
            .await
            .map_err(|_| PipelineClosed)?;
        done.await.map_err(|_| PipelineClosed)
    }

    /// Waits until the shards have finished their slices, then stops the queues.
    pub(super) async fn finish(self) {
        drop(self.queues);
        for task in self.tasks {
            if let Err(error) = task.await {
                tracing::error!(%error, "a shard of the stream failed");
            }
        }
        self.worker.queues.finish().await;
    }
}

/// The state that all shards share.
#[derive(Clone)]
struct ShardWorker {
    checker: Arc<RecordChecker>,
    queues: Arc<RepoQueues>,
    writer: mpsc::Sender<Message>,
}

impl ShardWorker {
    /// Checks the changes of one slice and sends them to the writer. Large records, changes with a script, and later
    /// changes of their repos go through the queues. `changes` is left empty.
    async fn work(
        &self,
        ticket: Ticket,
        changes: &mut Vec<IndexChange<ClaimedRecord>>,
        tally: &mut Tally,
    ) -> Result<(), PipelineClosed> {
        let is_small = |change: &&IndexChange<ClaimedRecord>| !self.queues.takes_unchecked(change);
        let bytes = changes.iter().filter(is_small).map(IndexChange::<ClaimedRecord>::record_bytes).sum();
        let check = |change: IndexChange<ClaimedRecord>| {
            if self.queues.takes_unchecked(&change) {
                return Some(Step::Unchecked(change));
            }
            self.checker.apply(change, tally).map(Step::Checked)
        };
        let (mut checked, mut queued) = (Vec::with_capacity(changes.len()), Vec::new());
        let mut queued_repos = HashSet::new();
        let steps: Vec<_> = hand_over_thread(bytes, || changes.drain(..).filter_map(check).collect());
        for step in steps {
            match step {
                Step::Checked(change)
                    if queued.is_empty() && self.queues.is_idle()
                        || !(self.queues.is_scripted(&change)
                            || queued_repos.contains(change.did())
                            || self.queues.has_queued(change.did())) =>
                {
                    checked.push(change);
                }
                step => {
                    queued_repos.insert(step.did().clone());
                    queued.push(step);
                }
            }
        }
        let part = Part { ticket, deferred: queued.len() as u32, changes: checked };
        self.writer.send(Message::Part(part)).await.map_err(|_| PipelineClosed)?;
        self.queues.add(ticket, queued).await;
        Ok(())
    }
}

async fn run(mut slices: mpsc::Receiver<Slice>, worker: ShardWorker) {
    let mut tally = Tally::default();
    while let Some(Slice { ticket, mut changes }) = slices.recv().await {
        let done = worker.work(ticket, &mut changes, &mut tally).await;
        tally.flush();
        if done.is_err() {
            return;
        }
    }
}

/// The shard of a DID; constant while this process runs. An attacker who creates many DIDs of the same shard only slows
/// that shard.
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
