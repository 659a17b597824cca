//! The Jetstream client: keeps one subscription alive, on one of several servers.

pub(super) mod address;
mod backoff;
mod connect;
mod hosts;
mod inflate;
mod session;
mod skip;
mod wanted;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use url::Url;

use crate::atproto::Nsid;
use crate::random::Random;

use super::intake::Intake;
use super::notice::{Notice, Observer};
use super::settings::{StreamConfig, Timing};
use super::status::Shared;

pub(super) use backoff::Backoff;
pub(super) use connect::{Connect, Network};
pub(super) use inflate::Inflate;

use hosts::Hosts;
use session::{End, Session};
use skip::Skip;
use wanted::Wanted;

/// Largest message taken. A record has at most 1 MiB; as JSON, with every character escaped and the envelope
/// around it, it stays well below this.
pub(super) const MAX_MESSAGE_BYTES: usize = 16 << 20;

/// The first event this much newer than the cursor means that the server did not have what was in between (or
/// that the whole network was silent so long, which a public server never is).
const GAP_US: i64 = 60 * 60 * 1_000_000;

pub(super) struct Stream<C> {
    connect: C,
    hosts: Hosts,
    inflate: Option<Inflate>,
    timing: Timing,
    tracked: watch::Receiver<Arc<[Nsid]>>,
    intake: Intake,
    /// Time of the last event taken in. Ahead of the committed one by what is in the queues.
    cursor: Option<i64>,
    /// The last attempt to connect failed, and that is in the event log.
    unreachable: bool,
    shared: Arc<Shared>,
    observer: Arc<dyn Observer>,
    random: Random,
    shutdown: CancellationToken,
}

/// What all of the stream's tasks share.
pub(super) struct Context {
    pub tracked: watch::Receiver<Arc<[Nsid]>>,
    pub shared: Arc<Shared>,
    pub observer: Arc<dyn Observer>,
    pub random: Random,
    pub shutdown: CancellationToken,
}

impl<C: Connect> Stream<C> {
    /// `urls` must not be empty; `cursor` is the committed one.
    pub(super) fn new(
        connect: C,
        urls: Vec<Url>,
        config: &StreamConfig,
        context: Context,
        intake: Intake,
        cursor: Option<i64>,
    ) -> Self {
        let inflate = config.zstd_dictionary.as_deref().and_then(|dictionary| {
            Inflate::new(dictionary)
                .inspect_err(
                    |error| tracing::error!(%error, "the zstd dictionary is unusable; frames come plain"),
                )
                .ok()
        });
        let Context { tracked, shared, observer, random, shutdown } = context;
        Self {
            connect,
            hosts: Hosts::new(urls),
            inflate,
            timing: config.timing,
            tracked,
            intake,
            cursor,
            unreachable: false,
            shared,
            observer,
            random,
            shutdown,
        }
    }

    /// Runs until shutdown, then lets the shards finish.
    pub(super) async fn run(mut self) {
        let mut backoff = Backoff::new(self.timing.backoff_floor, self.timing.backoff_cap);
        let mut skip = Skip::default();
        while !self.shutdown.is_cancelled() {
            let plan = Wanted::plan(&self.tracked.borrow_and_update());
            let Some(wanted) = plan else {
                self.wait_for_collections().await;
                // What the network did meanwhile concerned nobody: no reason to replay it.
                self.cursor = None;
                continue;
            };
            if self.cursor.is_none() {
                self.cursor = tokio::select! {
                    begun = self.intake.begin() => begun.ok(),
                    () = self.shutdown.cancelled() => None,
                };
                if self.cursor.is_none() {
                    break;
                }
            }
            let started = Instant::now();
            let before = self.cursor;
            let end = self.subscribe(&wanted).await;
            let healthy = started.elapsed() >= self.timing.healthy_after;
            match &end {
                End::Shutdown | End::PipelineClosed => break,
                End::FilterChanged => continue,
                _ => {}
            }
            self.shared.disconnected();
            self.cursor = skip.after(&end, before, self.cursor);
            if healthy {
                // Most likely the server restarts or a route changed: it gets the first chance.
                backoff.reset();
            } else {
                self.hosts.rotate();
            }
            tokio::select! {
                () = tokio::time::sleep(backoff.next(&self.random)) => {}
                () = self.shutdown.cancelled() => {}
            }
        }
        self.shared.idle();
        self.intake.finish().await;
    }

    /// Nothing is tracked: no reason to be connected.
    async fn wait_for_collections(&mut self) {
        self.shared.idle();
        tokio::select! {
            changed = self.tracked.changed() => if changed.is_err() {
                // The registry is gone, so there will never be any.
                self.shutdown.cancelled().await;
            },
            () = self.shutdown.cancelled() => {}
        }
    }

    /// One connection, with its events in the event log.
    async fn subscribe(&mut self, wanted: &Wanted) -> End {
        let cursor = self.cursor.map(|cursor| {
            let rewind = if self.hosts.cursor_is_foreign() { self.timing.rewind } else { Duration::ZERO };
            cursor.saturating_sub(rewind.as_micros() as i64).max(1)
        });
        let endpoint = self.hosts.current().clone();
        let url = address::subscription(&endpoint, wanted, cursor, self.inflate.is_some());
        let shown = shown(&endpoint);
        metrics::counter!("belvedere_stream_connects_total").increment(1);
        let connecting = tokio::time::timeout(self.timing.connect_timeout, self.connect.connect(&url));
        let connected = tokio::select! {
            connected = connecting => connected,
            () = self.shutdown.cancelled() => return End::Shutdown,
        };
        let socket = match connected {
            Ok(Ok(socket)) => socket,
            Ok(Err(error)) => return self.unreachable(&shown, &error.to_string()),
            Err(_) => return self.unreachable(&shown, "timed out"),
        };
        self.unreachable = false;
        self.shared.connected();
        tracing::info!(url = shown, cursor, collections = wanted.filters().len(), "connected to the stream");
        self.observer.notice(Notice::Connected { url: shown.clone() });

        let session = Session {
            socket,
            intake: &mut self.intake,
            inflate: self.inflate.as_mut(),
            tracked: &mut self.tracked,
            wanted,
            timing: &self.timing,
            shutdown: &self.shutdown,
        };
        let (hosts, newest, observer) = (&mut self.hosts, &mut self.cursor, &self.observer);
        let mut asked = cursor;
        let end = session
            .run(|times, settling| {
                if let (Some(cursor), Some(first)) = (asked, times.first) {
                    report_gap(&**observer, &shown, cursor, first);
                }
                if let Some(last) = times.last {
                    asked = None;
                    hosts.delivered();
                    // What new collections had since they are tracked was not sent: the next subscription has to
                    // begin where the change was seen, not behind what came of the others meanwhile.
                    if !settling {
                        // Not the maximum: after a rewind, or a start with a wrong clock, it is lower.
                        *newest = Some(last);
                    }
                }
            })
            .await;
        self.lost(&shown, end)
    }

    /// One row in the event log for a series of failed attempts.
    fn unreachable(&mut self, url: &str, error: &str) -> End {
        tracing::warn!(url, error, "can't connect to the stream");
        if !std::mem::replace(&mut self.unreachable, true) {
            self.observer.notice(Notice::Disconnected { reason: format!("can't connect to {url}: {error}") });
        }
        End::Unreachable
    }

    fn lost(&self, url: &str, end: End) -> End {
        let reason = end.reason();
        tracing::info!(url, reason, "disconnected from the stream");
        self.observer.notice(Notice::Disconnected { reason });
        end
    }
}

/// The servers of the configuration. Addresses that can't be used are left out with an error in the log.
pub(super) fn endpoints(config: &StreamConfig) -> Vec<Url> {
    let usable = |url: &String| {
        address::endpoint(url)
            .inspect_err(|error| tracing::error!(%error, "a stream address is unusable"))
            .ok()
    };
    config.urls.iter().filter_map(usable).collect()
}

fn report_gap(observer: &dyn Observer, url: &str, cursor: i64, first_event: i64) {
    if first_event.saturating_sub(cursor) > GAP_US {
        tracing::warn!(
            url,
            cursor,
            first_event,
            "the stream begins later than the cursor: events may be missing"
        );
        observer.notice(Notice::CursorTooOld { url: url.to_owned(), cursor, first_event });
    }
}

/// The endpoint without what may be secret.
fn shown(endpoint: &Url) -> String {
    let mut url = endpoint.clone();
    url.set_query(None);
    // Fails only for URLs without a host, which are no endpoints.
    let _ = url.set_password(None);
    let _ = url.set_username("");
    url.into()
}
