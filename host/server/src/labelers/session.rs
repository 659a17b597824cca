//! Reads one connection to a labeler, and stores its labels and cursor.

use std::collections::HashSet;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, MissedTickBehavior, interval_at};
use tokio_util::sync::CancellationToken;

use super::handle::Labelers;
use super::verify::{self, Content};
use crate::event_scripts::{Label, LabelVerdict};
use belvedere_base::clock::Timestamp;
use belvedere_instance::events::Event;
use belvedere_instance::identity::MIN_REFRESH_SECONDS;
use belvedere_protocol::atproto::Did;
use belvedere_protocol::atproto::labels::SignedLabel;
use belvedere_protocol::crypto::PublicKey;
use belvedere_storage::store::labelers;
use belvedere_storage::store::labels::Label as StoredLabel;
use belvedere_web::websocket::{Connection, Lost};

/// Label scripts that run at the same time for one labeler. Their results keep the order of the labels.
const SCRIPTS_AT_ONCE: usize = 8;

/// Labels stored in one transaction: some milliseconds of SQLite's single writer, which indexing needs too.
const LABELS_PER_BATCH: usize = 1000;

/// Interval between checks whether the labeler's DID document names another address.
const ADDRESS_CHECK: Duration = Duration::from_mins(5);

/// Shortest time between two fetches of a labeler's document because of its labels. It bounds the requests that a labeler
/// causes with wrong signatures; it is not read meanwhile.
const CHECK_INTERVAL: Duration = Duration::from_secs(MIN_REFRESH_SECONDS as u64);

/// The reason why a connection ended.
#[derive(Debug, thiserror::Error)]
pub(super) enum End {
    /// The server drains, or the labeler is not followed any more.
    #[error("not followed any more")]
    Stopped,
    /// The labeler was paused or deleted, or another host follows it.
    #[error("not followed by this host any more")]
    Superseded,
    #[error("{0}")]
    Unreachable(String),
    #[error(transparent)]
    Lost(#[from] Lost),
    /// The labeler does not know the cursor: it has started again with an empty history.
    #[error("the labeler says that the cursor is in the future")]
    FutureCursor,
    #[error("the labeler sent the error {error}: {message}")]
    Refused { error: String, message: String },
    #[error("the DID document names another address")]
    Moved,
    /// A signature is wrong, and no document says that the key is still the right one. The labels come again.
    #[error("the signature of a label can't be checked: {0}")]
    Unchecked(String),
    #[error("the labels can't be stored: {0}")]
    Store(#[from] belvedere_storage::store::StoreError),
}

/// An open connection to a labeler.
pub(super) struct Session<'a, Io> {
    pub(super) labelers: &'a Labelers,
    pub(super) did: &'a Did,
    pub(super) connection: Connection<Io>,
    /// The address of the DID document.
    pub(super) endpoint: String,
    pub(super) key: PublicKey,
    /// The earliest time at which a wrong signature may cause the next fetch of the document.
    pub(super) next_check: &'a mut Instant,
    /// The stored cursor.
    pub(super) cursor: &'a mut Option<i64>,
    /// The kinds of refusals that are in the event log already.
    pub(super) reported: &'a mut HashSet<&'static str>,
    /// Whether the labeler has said that the cursor is outdated.
    pub(super) is_outdated: bool,
    pub(super) stop: &'a CancellationToken,
}

impl<Io: AsyncRead + AsyncWrite + Unpin> Session<'_, Io> {
    /// Reads until the connection ends.
    pub(super) async fn run(mut self) -> End {
        let mut messages: Vec<Bytes> = Vec::new();
        let mut address_check = interval_at(Instant::now() + ADDRESS_CHECK, ADDRESS_CHECK);
        address_check.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let taken = tokio::select! {
                biased;
                () = self.stop.cancelled() => Err(End::Stopped),
                _ = address_check.tick() => self.check_address().await,
                read = self.connection.read_chunk(&mut messages, Some) => match read {
                    // While a chunk is processed, the socket is not read: a labeler can't fill the memory.
                    Ok(()) => {
                        let stop = self.stop;
                        let taken = self.take(std::mem::take(&mut messages));
                        stop.run_until_cancelled(taken).await.unwrap_or(Err(End::Stopped))
                    }
                    Err(lost) => Err(End::Lost(lost)),
                },
            };
            if let Err(end) = taken {
                self.connection.close().await;
                return end;
            }
        }
    }

    async fn check_address(&self) -> Result<(), End> {
        match self.labelers.core.resolver.resolve(self.did).await {
            Ok(document) if document.labeler().is_some_and(|now| now != self.endpoint) => Err(End::Moved),
            _ => Ok(()),
        }
    }

    /// Verifies and stores a chunk of messages.
    async fn take(&mut self, messages: Vec<Bytes>) -> Result<(), End> {
        let received = self.labelers.core.clock.now();
        let mut content = self.verified(messages).await?;
        let labels = content.take_labels();
        self.report(&content);
        let decided = stream::iter(labels).map(|label| decide(self.labelers, label));
        let decided: Vec<Option<StoredLabel>> = decided.buffered(SCRIPTS_AT_ONCE).collect().await;
        let decided: Vec<StoredLabel> = decided.into_iter().flatten().collect();
        if let Some(seq) = content.seq {
            self.store(&decided, seq, received).await?;
        }
        match content.error {
            Some((error, _)) if error == "FutureCursor" => Err(End::FutureCursor),
            Some((error, message)) => Err(End::Refused { error, message }),
            None => Ok(()),
        }
    }

    /// Decodes messages and verifies their labels, off the threads of the runtime. A signature is wrong only if a document
    /// that was fetched after the label arrived has no key for it: the labeler may have changed its key
    /// (`docs/adr/0092`).
    async fn verified(&mut self, messages: Vec<Bytes>) -> Result<Content, End> {
        let (did, key) = (self.did.clone(), self.key.clone());
        let mut content = self.off_runtime(move || verify::read(&messages, &did, &key)).await?;
        if content.has_unverified() {
            let key = self.current_key().await?;
            if key != self.key {
                tracing::info!(did = %self.did, "the labeler has another key");
                self.key = key.clone();
                let again = move || {
                    content.verify_again(&key);
                    content
                };
                content = self.off_runtime(again).await?;
            }
        }
        Ok(content)
    }

    /// The key of the labeler's document, fetched now.
    async fn current_key(&mut self) -> Result<PublicKey, End> {
        tokio::time::sleep_until(*self.next_check).await;
        let document = self.labelers.core.resolver.no_older_than(self.did, 0).await;
        // After a failure the waits between connections are the bound.
        let document = document.map_err(|error| End::Unchecked(error.to_string()))?;
        *self.next_check = Instant::now() + CHECK_INTERVAL;
        let key = document.label_key().cloned();
        key.ok_or_else(|| End::Unchecked("the DID document has no key #atproto_label any more".to_owned()))
    }

    async fn off_runtime<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, End> {
        // Fails only when the semaphore is closed, which never happens.
        let _permit = self.labelers.verifying.acquire().await;
        let failed = |error: tokio::task::JoinError| End::Unreachable(format!("verifying failed: {error}"));
        tokio::task::spawn_blocking(work).await.map_err(failed)
    }

    /// Stores labels, and the cursor together with the last of them.
    async fn store(&mut self, labels: &[StoredLabel], seq: i64, received: Timestamp) -> Result<(), End> {
        // A labeler that sends lower numbers repeats itself.
        let seq = self.cursor.unwrap_or(0).max(seq);
        let (first, last) =
            labels.split_at(labels.len().saturating_sub(1) / LABELS_PER_BATCH * LABELS_PER_BATCH);
        let from = *self.cursor;
        for batch in first.chunks(LABELS_PER_BATCH) {
            self.put(from, batch, received).await?;
        }
        self.put(Some(seq), last, received).await?;
        metrics::counter!("belvedere_labels_stored_total").increment(labels.len() as u64);
        Ok(())
    }

    async fn put(
        &mut self,
        cursor: Option<i64>,
        labels: &[StoredLabel],
        received: Timestamp,
    ) -> Result<(), End> {
        if !labelers::store(&self.labelers.core.db, self.did, *self.cursor, cursor, labels, received).await? {
            return Err(End::Superseded);
        }
        *self.cursor = cursor;
        Ok(())
    }

    /// Counts what was refused. The first of each kind is written to the event log.
    fn report(&mut self, content: &Content) {
        for (kind, (count, reason)) in &content.refused {
            metrics::counter!("belvedere_labels_refused_total", "reason" => *kind).increment(*count);
            if self.reported.insert(kind) {
                tracing::warn!(did = %self.did, kind, reason, "what a labeler sends is refused");
                let (did, reason) = (self.did.clone(), reason.clone());
                self.labelers.core.events.record(Event::LabelerLabelsRefused { did, kind, reason });
            }
        }
        // Once for each connection: a labeler can repeat it at will.
        if content.says_outdated && !std::mem::replace(&mut self.is_outdated, true) {
            tracing::warn!(did = %self.did, cursor = *self.cursor, "the labeler lacks the messages after the cursor");
            let (did, cursor) = (self.did.clone(), *self.cursor);
            self.labelers.core.events.record(Event::LabelerCursorOutdated { did, cursor });
        }
    }
}

/// Lets the label script of the subject decide. `None` when it drops the label.
async fn decide(labelers: &Labelers, signed: SignedLabel) -> Option<StoredLabel> {
    let SignedLabel { src, uri, cid, val, neg, cts, exp, .. } = signed;
    let cid = cid.map(|cid| cid.to_string());
    let original = Label { src: src.to_string(), uri, cid, val, neg, cts, exp };
    let LabelVerdict::Keep(label) = labelers.scripts.apply_label(original).await else { return None };
    let Label { src, uri, cid, val, neg, cts, exp } = label;
    Some(StoredLabel { uri, src, val, cid, neg, cts, exp })
}
