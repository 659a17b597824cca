//! Keeps one labeler connected: finds its address in its DID document, connects, and reconnects with growing waits.

use std::collections::HashSet;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use url::Url;

use super::handle::{Connected, Labelers};
use super::session::{End, Session};
use belvedere_base::backoff::Backoff;
use belvedere_instance::events::Event;
use belvedere_protocol::atproto::Did;
use belvedere_protocol::crypto::PublicKey;
use belvedere_storage::store::StoreError;
use belvedere_storage::store::labelers::{self, LabelerStatus};
use belvedere_web::websocket::{ChunkLimits, Connect, Connection, Guarded, KeepAlive, Skip};

/// Largest message accepted, in bytes: some 5,000 labels. Labelers send one to a few hundred in a message.
const MAX_MESSAGE_BYTES: usize = 1 << 20;

/// Messages that are verified and stored together: as many labels as in one message of the largest size. A labeler whose
/// signatures are wrong is read one chunk at a time ([`super::session`]).
const CHUNK: ChunkLimits = ChunkLimits { frames: 4096, bytes: 1 << 20 };

const KEEP_ALIVE: KeepAlive =
    KeepAlive { ping_after: Duration::from_secs(30), silence: Duration::from_mins(1) };

/// Limit for TCP, TLS and the WebSocket upgrade together.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);

/// Shortest and longest wait before reconnecting.
const BACKOFF_FLOOR: Duration = Duration::from_secs(1);
const BACKOFF_CAP: Duration = Duration::from_mins(5);

/// A connection that lasted this long was healthy: the waits start over.
const HEALTHY_AFTER: Duration = Duration::from_mins(2);

/// First step of the cursor when a message ends every connection: numbers rise by one or a little more.
const SKIP_MESSAGES: i64 = 1;

/// A subscription to one labeler.
pub(super) struct Subscription<C = Guarded> {
    labelers: Labelers,
    connect: C,
    did: Did,
    /// The stored cursor.
    cursor: Option<i64>,
    /// The last attempt to connect failed.
    failing: bool,
    /// The kinds of refusals that are in the event log already.
    reported: HashSet<&'static str>,
    /// The earliest time at which a wrong signature may cause the next fetch of the document.
    next_check: Instant,
    stop: CancellationToken,
}

impl Subscription {
    pub(super) fn new(labelers: Labelers, did: Did, stop: CancellationToken) -> Self {
        let connect = Guarded { net: labelers.core.net.clone(), max_message_bytes: MAX_MESSAGE_BYTES };
        Self::with(connect, labelers, did, stop)
    }
}

impl<C: Connect + Sync> Subscription<C> {
    pub(super) fn with(connect: C, labelers: Labelers, did: Did, stop: CancellationToken) -> Self {
        let (reported, next_check) = (HashSet::new(), Instant::now());
        Self { labelers, connect, did, cursor: None, failing: false, reported, next_check, stop }
    }

    /// Runs until it is stopped, or the labeler is not active any more.
    pub(super) async fn run(mut self) {
        let mut backoff = Backoff::new(BACKOFF_FLOOR, BACKOFF_CAP);
        let mut skip = Skip::new(SKIP_MESSAGES, "belvedere_labelers_skips_total");
        loop {
            let started = Instant::now();
            let end = self.connect_once(&mut skip).await;
            match end {
                Ok(End::Stopped | End::Superseded) => break,
                Ok(_) => {}
                Err(error) => {
                    tracing::warn!(did = %self.did, %error, "the cursor of a labeler can't be read or moved");
                }
            }
            if started.elapsed() >= HEALTHY_AFTER {
                backoff.reset();
            }
            let wait = tokio::time::sleep(backoff.next(&self.labelers.core.random));
            if self.stop.run_until_cancelled(wait).await.is_none() {
                break;
            }
        }
    }

    /// One attempt to connect, and the connection. Then moves the cursor if the end asks for that.
    async fn connect_once(&mut self, skip: &mut Skip) -> Result<End, StoreError> {
        match labelers::get(&self.labelers.core.db, self.did.as_str()).await? {
            Some(row) if row.status == LabelerStatus::Active => self.cursor = row.cursor,
            _ => return Ok(End::Superseded),
        }
        let before = self.cursor;
        let stop = self.stop.clone();
        let opened = stop.run_until_cancelled(self.open()).await.unwrap_or(Err(End::Stopped));
        let end = match opened {
            Ok((connection, endpoint, key)) => {
                self.failing = false;
                let id = self.labelers.core.random.uuid();
                labelers::set_connected(&self.labelers.core.db, &self.did, &id).await?;
                self.labelers.core.events.record(Event::LabelerConnected { did: self.did.clone() });
                tracing::info!(did = %self.did, endpoint, cursor = before, "connected to a labeler");
                let _connected = Connected::new(&self.labelers);
                let session = Session {
                    labelers: &self.labelers,
                    did: &self.did,
                    connection,
                    endpoint,
                    key,
                    next_check: &mut self.next_check,
                    cursor: &mut self.cursor,
                    reported: &mut self.reported,
                    is_outdated: false,
                    stop: &stop,
                };
                let end = session.run().await;
                self.note_end(Some(&id), &end).await?;
                end
            }
            Err(End::Stopped) => return Ok(End::Stopped),
            Err(end) => {
                // One event for a series of failed attempts.
                if std::mem::replace(&mut self.failing, true) {
                    self.note_disconnected(None, Some(&end.to_string())).await?;
                } else {
                    self.note_end(None, &end).await?;
                }
                end
            }
        };
        match &end {
            End::FutureCursor if self.cursor.is_some() => self.start_over().await?,
            End::Lost(lost) => {
                let next = skip.after(Some(lost), Some(before.unwrap_or(0)), Some(self.cursor.unwrap_or(0)));
                self.skip_to(next).await?;
            }
            _ => {}
        }
        Ok(end)
    }

    /// Looks up the labeler and connects to it.
    async fn open(&self) -> Result<(Connection<C::Io>, String, PublicKey), End> {
        let unreachable = |why: String| End::Unreachable(why);
        let resolver = &self.labelers.core.resolver;
        // After a failure the cached document may be outdated.
        let document =
            if self.failing { resolver.refresh(&self.did).await } else { resolver.resolve(&self.did).await };
        let document = document.map_err(|error| unreachable(error.to_string()))?;
        let endpoint = document.labeler().ok_or_else(|| {
            unreachable(
                "its DID document has no service #atproto_labeler with an origin as its address".to_owned(),
            )
        })?;
        let key = document.label_key().ok_or_else(|| {
            unreachable("its DID document has no usable verification method #atproto_label".to_owned())
        })?;
        let url = subscription_url(endpoint, self.cursor)
            .ok_or_else(|| unreachable(format!("the address {endpoint} is not one of http or https")))?;
        metrics::counter!("belvedere_labelers_connects_total").increment(1);
        match tokio::time::timeout(CONNECT_TIMEOUT, self.connect.connect(&url)).await {
            Ok(Ok(socket)) => {
                Ok((Connection::new(socket, KEEP_ALIVE, CHUNK), endpoint.to_owned(), key.clone()))
            }
            Ok(Err(error)) => Err(unreachable(format!("can't connect to {endpoint}: {error}"))),
            Err(_) => Err(unreachable(format!("can't connect to {endpoint}: timed out"))),
        }
    }

    /// Reads the labeler from its first message again. Labels that are stored already don't change.
    async fn start_over(&mut self) -> Result<(), StoreError> {
        let lost = self.cursor;
        if labelers::rewind(&self.labelers.core.db, &self.did, lost, None).await? {
            tracing::warn!(did = %self.did, cursor = lost, "the labeler is read from its beginning again");
            self.labelers
                .core
                .events
                .record(Event::LabelerCursorReset { did: self.did.clone(), cursor: lost });
        }
        Ok(())
    }

    /// Moves the cursor past a message that ends every connection.
    async fn skip_to(&mut self, next: Option<i64>) -> Result<(), StoreError> {
        let from = self.cursor;
        let Some(next) = next.filter(|next| *next > from.unwrap_or(0)) else { return Ok(()) };
        if labelers::rewind(&self.labelers.core.db, &self.did, from, Some(next)).await? {
            let (did, from) = (self.did.clone(), from.unwrap_or(0));
            self.labelers.core.events.record(Event::LabelerMessagesSkipped { did, from, to: next });
        }
        Ok(())
    }

    /// Stores and reports how a connection, or the first failed attempt, ended.
    async fn note_end(&self, connection: Option<&str>, end: &End) -> Result<(), StoreError> {
        let reason = end.to_string();
        let is_error = !matches!(end, End::Stopped | End::Superseded);
        tracing::info!(did = %self.did, reason, "not connected to a labeler");
        self.labelers.core.events.record(Event::LabelerDisconnected {
            did: self.did.clone(),
            last_seq: self.cursor,
            reason: reason.clone(),
        });
        self.note_disconnected(connection, is_error.then_some(&reason)).await
    }

    async fn note_disconnected(
        &self,
        connection: Option<&str>,
        error: Option<&str>,
    ) -> Result<(), StoreError> {
        let now = self.labelers.core.clock.now();
        labelers::set_disconnected(&self.labelers.core.db, &self.did, connection, error, now).await
    }
}

/// The URL of a subscription. `None` when the endpoint is not an origin of http or https. Without a cursor the labeler
/// sends its whole history.
fn subscription_url(endpoint: &str, cursor: Option<i64>) -> Option<Url> {
    let url = match endpoint.split_once("://")? {
        ("https", rest) => format!("wss://{rest}"),
        ("http", rest) => format!("ws://{rest}"),
        _ => return None,
    };
    let cursor = cursor.unwrap_or(0);
    Url::parse(&format!("{url}/xrpc/com.atproto.label.subscribeLabels?cursor={cursor}")).ok()
}
