//! Takes the lease of the stream, and follows the stream while this host holds it.
//!
//! Each lease is a term with its own shards and chunk numbers. Events that are still queued when a term ends are not
//! lost: the host with the next term replays them.

use std::num::NonZero;
use std::sync::Arc;

use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use url::Url;

use crate::lexicons::{Followed, Registry};
use belvedere_base::backoff::Backoff;
use belvedere_base::clock::Clock;
use belvedere_base::random::Random;
use belvedere_storage::store::cursors::StoredCursor;
use belvedere_storage::store::lease::{Lease, Term};
use belvedere_web::websocket::Connect;

use super::apply::RecordChecker;
use super::commit::Sink;
use super::gaps::Gaps;
use super::intake::Intake;
use super::message::Message;
use super::observer::Observer;
use super::repo_queues::Limits;
use super::scripts::RecordScriptRunner;
use super::settings::StreamConfig;
use super::shard::Shards;
use super::status::LiveStatus;
use super::stream::{Context, Stream, endpoints};

/// More shards than this only wait for the writer.
const MAX_SHARDS: usize = 8;

pub(super) struct Reader<S, C> {
    pub sink: S,
    pub connect: C,
    pub tracked: watch::Receiver<Followed>,
    pub observer: Arc<dyn Observer>,
    pub registry: Arc<Registry>,
    pub scripts: Arc<dyn RecordScriptRunner>,
    pub clock: Clock,
    pub random: Random,
    pub config: StreamConfig,
    pub live_status: Arc<LiveStatus>,
    pub queue: mpsc::Sender<Message>,
    /// The last term that the writer found over.
    pub superseded: watch::Receiver<Option<Term>>,
    pub shutdown: CancellationToken,
}

impl<S: Sink + Clone, C: Connect + Clone + Sync> Reader<S, C> {
    /// Runs until shutdown. Returns the lease, because the writer may still have to commit under it.
    pub(super) async fn run(self) -> Lease {
        let mut lease = self.sink.lease();
        let urls = endpoints(&self.config);
        if urls.is_empty() {
            tracing::info!("no Jetstream server is configured: only local writes reach the index");
            self.shutdown.cancelled().await;
            return lease;
        }
        while let Some(term) = self.take(&mut lease).await {
            let over = self.shutdown.child_token();
            let mut following = std::pin::pin!(self.follow(&urls, term, &over));
            let mut superseded = self.superseded.clone();
            let ended = tokio::select! {
                // The writer noticed it before this connection did, or the table of cursors was changed by hand.
                Ok(_) = superseded.wait_for(|over| *over == Some(term)) => false,
                () = lease.lost() => {
                    tracing::warn!("the database connection that holds the stream's lease was lost");
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
            lease.release().await;
        }
        lease
    }

    /// Takes the lease, waiting while another host holds it. `None` at shutdown.
    async fn take(&self, lease: &mut Lease) -> Option<Term> {
        loop {
            let taken = tokio::select! {
                biased;
                () = self.shutdown.cancelled() => return None,
                taken = lease.take(self.clock.now()) => taken,
            };
            match taken {
                Ok(Some(term)) => {
                    self.live_status.leading();
                    if term != Term::ALONE {
                        tracing::info!(?term, "this host follows the stream");
                    }
                    return Some(term);
                }
                Ok(None) => self.live_status.standing_by(),
                Err(error) => {
                    self.live_status.lease_failed();
                    tracing::warn!(%error, "can't take the lease of the stream");
                }
            }
            tokio::select! {
                () = tokio::time::sleep(self.config.timing.lease_retry) => {}
                () = self.shutdown.cancelled() => return None,
            }
        }
    }

    /// Follows the stream until `over` is cancelled or the writer has ended.
    async fn follow(&self, urls: &[Url], term: Term, over: &CancellationToken) {
        let Some(stored) = self.stored_cursor(over).await else { return };
        self.live_status.committed(stored.map(|stored| stored.cursor));
        let shards = self.config.shards.unwrap_or_else(default_shards).clamp(1, MAX_SHARDS);
        let checker = RecordChecker::new(self.observer.clone(), self.registry.clone(), self.clock.clone());
        let limits = Limits::for_shards(shards);
        let shards = Shards::start(shards, limits, checker, self.scripts.clone(), self.queue.clone(), term);
        let gaps = Gaps {
            store: Arc::new(self.sink.clone()),
            observer: self.observer.clone(),
            live_status: self.live_status.clone(),
            clock: self.clock.clone(),
            timing: self.config.timing,
        };
        let intake = Intake::new(self.tracked.clone(), shards, gaps);
        let context = Context {
            tracked: self.tracked.clone(),
            live_status: self.live_status.clone(),
            observer: self.observer.clone(),
            clock: self.clock.clone(),
            random: self.random.clone(),
            shutdown: over.clone(),
        };
        Stream::new(self.connect.clone(), urls.to_vec(), &self.config, context, intake, stored).run().await;
    }

    /// Reads the committed cursor, with retries. The stream can't start without it: starting live would leave a gap.
    /// `None` when `over` is cancelled.
    async fn stored_cursor(&self, over: &CancellationToken) -> Option<Option<StoredCursor>> {
        let timing = self.config.timing;
        let mut backoff = Backoff::new(timing.commit_retry, timing.commit_retry_cap);
        loop {
            match self.sink.stored_cursor().await {
                Ok(cursor) => return Some(cursor),
                Err(error) => {
                    self.live_status.commit_failed();
                    tracing::warn!(%error, "can't read the stream's cursor");
                }
            }
            tokio::select! {
                () = tokio::time::sleep(backoff.next(&self.random)) => {}
                () = over.cancelled() => return None,
            }
        }
    }
}

/// One shard per core, except one core for the writer.
fn default_shards() -> usize {
    std::thread::available_parallelism().map_or(1, NonZero::get).saturating_sub(1)
}
