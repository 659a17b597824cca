//! The Jetstream client: keeps one subscription open, on one of several servers.

pub(super) mod address;
mod inflate;
mod servers;
mod session;
mod wanted;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use url::Url;

use crate::lexicons::Followed;
use belvedere_base::backoff::Backoff;
use belvedere_base::clock::{Clock, Timestamp};
use belvedere_base::random::Random;
use belvedere_storage::store::cursors::StoredCursor;
use belvedere_storage::store::gaps::{Gap, GapReason};
use belvedere_web::websocket::{ChunkLimits, Connect, Connection, KeepAlive, Lost, Skip};

use super::gaps;
use super::intake::{CHUNK_BYTES, CHUNK_FRAMES, Intake};
use super::observer::{Observer, StreamReport};
use super::position::Position;
use super::resumption::Expected;
use super::settings::{StreamConfig, Timing};
use super::status::LiveStatus;

pub(super) use inflate::Inflate;

use servers::Servers;
use session::{End, Session};
use wanted::Wanted;

/// Largest message accepted, in bytes. A record has at most 1 MiB; its frame stays well below this limit even as JSON
/// with every character escaped.
pub(super) const MAX_MESSAGE_BYTES: usize = 16 << 20;

/// Time by which a message that ends every connection is skipped first. The longest step is about four and a half
/// hours.
const SKIP_US: i64 = 1_000_000;

pub(super) struct Stream<C> {
    connect: C,
    servers: Servers,
    inflate: Option<Inflate>,
    timing: Timing,
    tracked: watch::Receiver<Followed>,
    intake: Intake,
    /// `None` before a collection is tracked.
    position: Option<Position>,
    /// The last attempt to connect failed, and a report of that was sent.
    unreachable: bool,
    live_status: Arc<LiveStatus>,
    observer: Arc<dyn Observer>,
    clock: Clock,
    random: Random,
    shutdown: CancellationToken,
}

/// Handles to the rest of the server that [`Stream`] needs.
pub(super) struct Context {
    pub tracked: watch::Receiver<Followed>,
    pub live_status: Arc<LiveStatus>,
    pub observer: Arc<dyn Observer>,
    pub clock: Clock,
    pub random: Random,
    pub shutdown: CancellationToken,
}

impl<C: Connect> Stream<C> {
    /// `urls` must not be empty; `stored` is the committed cursor.
    pub(super) fn new(
        connect: C,
        urls: Vec<Url>,
        config: &StreamConfig,
        context: Context,
        intake: Intake,
        stored: Option<StoredCursor>,
    ) -> Self {
        let position = stored.map(|StoredCursor { cursor, commits_until, committed_at }| Position {
            commits_until: commits_until.unwrap_or(cursor),
            ..Position::at(cursor, committed_at)
        });
        let inflate = config.zstd_dictionary.as_deref().and_then(|dictionary| {
            Inflate::new(dictionary)
                .inspect_err(
                    |error| tracing::error!(%error, "the zstd dictionary is unusable: requesting uncompressed frames"),
                )
                .ok()
        });
        let Context { tracked, live_status, observer, clock, random, shutdown } = context;
        Self {
            connect,
            servers: Servers::new(urls),
            inflate,
            timing: config.timing,
            tracked,
            intake,
            position,
            unreachable: false,
            live_status,
            observer,
            clock,
            random,
            shutdown,
        }
    }

    /// Runs until shutdown, then waits until the shards have finished.
    pub(super) async fn run(mut self) {
        let mut backoff = Backoff::new(self.timing.backoff_floor, self.timing.backoff_cap);
        let mut skip = Skip::new(SKIP_US, "belvedere_stream_skips_total");
        while !self.shutdown.is_cancelled() {
            let plan = Wanted::plan(&self.tracked.borrow_and_update());
            let Some(wanted) = plan else {
                self.wait_for_collections().await;
                // No collection was tracked since the cursor, so there is nothing to replay.
                self.position = None;
                continue;
            };
            let Some(mut position) = self.begin_position().await else { break };
            let started = Instant::now();
            let before = position.events_until;
            let end = self.subscribe(&wanted, &mut position).await;
            let reached = position.events_until;
            let healthy = started.elapsed() >= self.timing.healthy_after;
            match &end {
                End::Shutdown | End::PipelineClosed => break,
                End::FilterChanged => {
                    self.position = Some(position);
                    continue;
                }
                End::Lost(Lost::Undecodable) => self.leave_compression(),
                _ => {}
            }
            self.live_status.disconnected();
            let next = skip.after(end.lost(), Some(before), Some(reached)).unwrap_or(reached);
            if next > reached {
                (position.events_until, position.skipped_until) = (next, next);
                let (from, to) = (Timestamp(reached), Timestamp(next));
                self.found_gap(Gap { reason: GapReason::MessageSkipped, from, to }).await;
            }
            self.position = Some(position);
            self.servers.lost();
            if healthy {
                // Most likely the server restarts or a route changed, so try the same server again first.
                backoff.reset();
            } else {
                self.servers.rotate();
            }
            tokio::select! {
                () = tokio::time::sleep(backoff.next(&self.random)) => {}
                () = self.shutdown.cancelled() => {}
            }
        }
        self.live_status.idle();
        self.intake.finish().await;
    }

    /// The position at which the next subscription continues; `None` at shutdown. One that is later than the present, with
    /// which a server would send nothing or skip events, is replaced.
    async fn begin_position(&mut self) -> Option<Position> {
        let Some(position) = self.position.take() else {
            let stored = self.shutdown.run_until_cancelled(self.intake.store_initial_cursor()).await?;
            return stored.ok().map(|cursor| Position::of_own_clock(Timestamp(cursor)));
        };
        let now = self.clock.now();
        let Some(gap) = gaps::of_future_cursor(position.events_until, position.seen_at, now) else {
            return Some(position);
        };
        // Later events are delivered live. Earlier ones that the server still has come again.
        let from = gap.from;
        self.found_gap(gap).await;
        Some(if from.0 > 0 { Position::at(from.0, now) } else { Position::of_own_clock(now) })
    }

    /// From now on requests uncompressed frames. The one that can't be decompressed comes again, with those after it.
    fn leave_compression(&mut self) {
        let url = redacted(self.servers.current());
        tracing::warn!(
            url,
            "a compressed frame of the stream can't be decompressed: it is damaged, or JETSTREAM_ZSTD_DICT is not this \
             server's dictionary. Continuing at the same position, uncompressed"
        );
        self.inflate = None;
    }

    async fn found_gap(&self, gap: Gap) {
        let url = redacted(self.servers.current());
        self.shutdown.run_until_cancelled(self.intake.found_gap(&url, gap)).await;
    }

    /// Waits, disconnected, until a collection is tracked.
    async fn wait_for_collections(&mut self) {
        self.live_status.idle();
        tokio::select! {
            changed = self.tracked.changed() => if changed.is_err() {
                // The registry was dropped, so the collections won't change again.
                self.shutdown.cancelled().await;
            },
            () = self.shutdown.cancelled() => {}
        }
    }

    /// Runs one connection until it ends, and sends reports of its start and end.
    async fn subscribe(&mut self, wanted: &Wanted, position: &mut Position) -> End {
        let (is_other_server, since_commit) =
            (self.servers.cursor_is_foreign(), self.servers.may_lack_commits());
        if since_commit && let Some(gap) = position.bound_replay() {
            self.found_gap(gap).await;
        }
        let cursor = position.request(since_commit, self.timing.rewind);
        let endpoint = self.servers.current().clone();
        let url = address::subscription(&endpoint, wanted, Some(cursor), self.inflate.is_some());
        let redacted_url = redacted(&endpoint);
        metrics::counter!("belvedere_stream_connects_total").increment(1);
        let connecting = tokio::time::timeout(self.timing.connect_timeout, self.connect.connect(&url));
        let connected = tokio::select! {
            connected = connecting => connected,
            () = self.shutdown.cancelled() => return End::Shutdown,
        };
        let socket = match connected {
            Ok(Ok(socket)) => socket,
            Ok(Err(error)) => return self.unreachable(&redacted_url, &error.to_string()),
            Err(_) => return self.unreachable(&redacted_url, "timed out"),
        };
        self.unreachable = false;
        self.live_status.connected();
        tracing::info!(
            url = redacted_url,
            cursor,
            collections = wanted.filters().len(),
            "connected to the stream"
        );
        self.observer.report(StreamReport::Connected { url: redacted_url.clone() });
        self.intake.begin(Expected {
            url: redacted_url.clone(),
            position: position.events_until,
            from: position.wanted_from(since_commit),
            seen_at: position.seen_at,
            connected_at: self.clock.now(),
            is_own_time: position.is_own_time,
            is_other_server,
        });

        let keep_alive = KeepAlive { ping_after: self.timing.ping_after, silence: self.timing.silence };
        let limits = ChunkLimits { frames: CHUNK_FRAMES, bytes: CHUNK_BYTES };
        let session = Session {
            connection: Connection::new(socket, keep_alive, limits),
            intake: &mut self.intake,
            position,
            servers: &mut self.servers,
            inflate: self.inflate.as_mut(),
            tracked: &mut self.tracked,
            wanted,
            timing: &self.timing,
            shutdown: &self.shutdown,
        };
        let end = session.run().await;
        self.report_disconnect(&redacted_url, end)
    }

    /// Sends one report for a series of failed attempts.
    fn unreachable(&mut self, url: &str, error: &str) -> End {
        tracing::warn!(url, error, "can't connect to the stream");
        if !std::mem::replace(&mut self.unreachable, true) {
            self.observer
                .report(StreamReport::Disconnected { reason: format!("can't connect to {url}: {error}") });
        }
        End::Unreachable
    }

    fn report_disconnect(&self, url: &str, end: End) -> End {
        let reason = end.reason();
        tracing::info!(url, reason, "disconnected from the stream");
        self.observer.report(StreamReport::Disconnected { reason });
        end
    }
}

/// The configured servers. Invalid addresses are logged as errors and left out.
pub(super) fn endpoints(config: &StreamConfig) -> Vec<Url> {
    let usable = |url: &String| {
        address::endpoint(url)
            .inspect_err(|error| tracing::error!(%error, "a configured stream address is invalid"))
            .ok()
    };
    config.urls.iter().filter_map(usable).collect()
}

/// The endpoint for logs, without credentials and query, which may contain secrets.
fn redacted(endpoint: &Url) -> String {
    let mut url = endpoint.clone();
    url.set_query(None);
    // Fails only for URLs without a host, which can't be endpoints.
    let _ = url.set_password(None);
    let _ = url.set_username("");
    url.into()
}
