//! Follows the stream while this host has the lease, and waits for it while another has it.
//!
//! Each lease is a term with shards and counts of its own. What a term that is over has left in its queues comes again,
//! to whoever follows the stream now.

use std::num::NonZero;
use std::sync::Arc;

use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use url::Url;

use crate::atproto::Nsid;
use crate::clock::Clock;
use crate::random::Random;
use crate::store::lease::{Lease, Term};

use super::apply::Applier;
use super::commit::Sink;
use super::intake::Intake;
use super::notice::Observer;
use super::scripts::RecordScripts;
use super::settings::StreamConfig;
use super::shard::Shards;
use super::status::Shared;
use super::stream::{Backoff, Connect, Context, Stream, endpoints};
use super::writer::Message;

/// More shards than this only wait for the one writer.
const MAX_SHARDS: usize = 8;

pub(super) struct Reader<S, C> {
    pub sink: S,
    pub connect: C,
    pub tracked: watch::Receiver<Arc<[Nsid]>>,
    pub observer: Arc<dyn Observer>,
    pub scripts: Arc<dyn RecordScripts>,
    pub clock: Clock,
    pub random: Random,
    pub config: StreamConfig,
    pub shared: Arc<Shared>,
    pub queue: mpsc::Sender<Message>,
    /// The last term that the writer found to be over.
    pub superseded: watch::Receiver<Option<Term>>,
    pub shutdown: CancellationToken,
}

impl<S: Sink, C: Connect + Clone + Sync> Reader<S, C> {
    /// Runs until shutdown. The lease comes back: the writer may have to commit under it.
    pub(super) async fn run(self) -> Lease {
        let mut lease = self.sink.lease();
        let urls = endpoints(&self.config);
        if urls.is_empty() {
            tracing::warn!("no stream is configured: only local writes reach the index");
            self.shutdown.cancelled().await;
            return lease;
        }
        while let Some(term) = self.take(&mut lease).await {
            let over = self.shutdown.child_token();
            let mut following = std::pin::pin!(self.follow(&urls, term, &over));
            let mut superseded = self.superseded.clone();
            let ended = tokio::select! {
                // The writer has learned it first, or somebody has tampered with the table of cursors.
                Ok(_) = superseded.wait_for(|over| *over == Some(term)) => false,
                () = lease.lost() => {
                    tracing::warn!("the lease of the stream is lost with its database connection");
                    false
                }
                () = &mut following => true,
            };
            if !ended {
                over.cancel();
                following.await;
            }
            if self.shutdown.is_cancelled() || self.queue.is_closed() {
                break;
            }
            lease.give_back().await;
        }
        lease
    }

    /// `None` at shutdown.
    async fn take(&self, lease: &mut Lease) -> Option<Term> {
        loop {
            let taken = tokio::select! {
                biased;
                () = self.shutdown.cancelled() => return None,
                taken = lease.take(self.clock.now()) => taken,
            };
            match taken {
                Ok(Some(term)) => {
                    self.shared.leading();
                    if term != Term::ALONE {
                        tracing::info!(?term, "this host follows the stream");
                    }
                    return Some(term);
                }
                Ok(None) => self.shared.standing_by(),
                Err(error) => {
                    self.shared.lease_failed();
                    tracing::warn!(%error, "the lease of the stream can't be asked for");
                }
            }
            tokio::select! {
                () = tokio::time::sleep(self.config.timing.lease_retry) => {}
                () = self.shutdown.cancelled() => return None,
            }
        }
    }

    /// Until `over`, or until the writer is gone.
    async fn follow(&self, urls: &[Url], term: Term, over: &CancellationToken) {
        let Some(cursor) = self.stored_cursor(over).await else { return };
        self.shared.committed(cursor);
        let shards = self.config.shards.unwrap_or_else(default_shards).clamp(1, MAX_SHARDS);
        let applier = Applier::new(self.observer.clone(), self.clock.clone());
        let shards = Shards::start(shards, applier, self.scripts.clone(), self.queue.clone(), term);
        let intake = Intake::new(self.tracked.clone(), shards, self.shared.clone(), self.clock.clone());
        let context = Context {
            tracked: self.tracked.clone(),
            shared: self.shared.clone(),
            observer: self.observer.clone(),
            random: self.random.clone(),
            shutdown: over.clone(),
        };
        Stream::new(self.connect.clone(), urls.to_vec(), &self.config, context, intake, cursor).run().await;
    }

    /// Where the stream was left. Without it we can't begin: a live start would leave a gap.
    async fn stored_cursor(&self, over: &CancellationToken) -> Option<Option<i64>> {
        let timing = self.config.timing;
        let mut backoff = Backoff::new(timing.commit_retry, timing.commit_retry_cap);
        loop {
            match self.sink.stored_cursor().await {
                Ok(cursor) => return Some(cursor),
                Err(error) => {
                    self.shared.commit_failed();
                    tracing::warn!(%error, "the stream's cursor can't be read");
                }
            }
            tokio::select! {
                () = tokio::time::sleep(backoff.next(&self.random)) => {}
                () = over.cancelled() => return None,
            }
        }
    }
}

/// All cores but the writer's.
fn default_shards() -> usize {
    std::thread::available_parallelism().map_or(1, NonZero::get).saturating_sub(1)
}
