//! Commits a batch, and retries until it succeeds.
//!
//! While the database is unreachable, the commit is retried: the cursor doesn't move, the queues fill up and the socket
//! is not read. A batch that a reachable database refuses repeatedly is split until the row at fault is alone. That row
//! is dropped and reported, so that no record can stop the stream.

use std::future::Future;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use belvedere_base::backoff::Backoff;
use belvedere_base::clock::{Clock, Timestamp};
use belvedere_base::random::Random;
use belvedere_protocol::atproto::RecordUri;
use belvedere_storage::store::cursors::StoredCursor;
use belvedere_storage::store::gaps::Gap;
use belvedere_storage::store::index::{AccountChange, ApplyReport, Batch, RejectedRecord, StreamCursor};
use belvedere_storage::store::lease::Lease;
use belvedere_storage::store::{Db, StoreError};

use super::gaps::GapStore;
use super::message::CURSOR_SOURCE;
use super::observer::{Observer, StreamReport};
use super::settings::Timing;
use super::status::LiveStatus;
use super::throttle::Throttle;

/// The store that batches are committed to, or a model of it in tests.
pub(super) trait Sink: Send + Sync + 'static {
    /// Applies the whole batch in one transaction, or nothing of it.
    fn apply(&self, batch: &Batch) -> impl Future<Output = Result<ApplyReport, StoreError>> + Send;
    /// The last committed cursor.
    fn stored_cursor(&self) -> impl Future<Output = Result<Option<StoredCursor>, StoreError>> + Send;
    /// Stores a gap before the cursor can pass it.
    fn store_gap(&self, gap: &Gap, now: Timestamp) -> impl Future<Output = Result<(), StoreError>> + Send;
    /// The lease of the stream, not taken yet.
    fn lease(&self) -> Lease;
}

impl Sink for Db {
    async fn apply(&self, batch: &Batch) -> Result<ApplyReport, StoreError> {
        belvedere_storage::store::index::apply(self, batch).await
    }

    async fn stored_cursor(&self) -> Result<Option<StoredCursor>, StoreError> {
        belvedere_storage::store::cursors::stored(self, CURSOR_SOURCE).await
    }

    async fn store_gap(&self, gap: &Gap, now: Timestamp) -> Result<(), StoreError> {
        belvedere_storage::store::gaps::add(self, gap, now).await
    }

    fn lease(&self) -> Lease {
        Lease::of(self)
    }
}

impl<S: Sink> GapStore for S {
    fn store<'a>(&'a self, gap: &'a Gap, now: Timestamp) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(self.store_gap(gap, now))
    }
}

/// Refusals of the same batch, each after a longer wait, before it is split.
const MAX_REFUSALS: u32 = 5;

/// Refused rows that are reported in a burst, and the interval between reports after that.
const REJECTED_BURST: u32 = 20;
const REJECTED_EVERY_US: i64 = 10_000_000;

/// Changed account statuses that are reported in a burst, and the interval between reports after that: a takedown of
/// many accounts is reported whole, a server that changes its accounts all the time does not fill the event log.
const STATUS_BURST: u32 = 1_000;
const STATUS_EVERY_US: i64 = 10_000_000;

pub(super) struct Committer<S> {
    pub sink: S,
    pub live_status: Arc<LiveStatus>,
    observer: Arc<dyn Observer>,
    random: Random,
    timing: Timing,
    rejections: Throttle,
    statuses: Throttle,
    /// Cancelled when shutdown has waited long enough for an unreachable database.
    give_up: CancellationToken,
}

/// The reason why a batch, or the rest of it, was not committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CommitError {
    /// The database was unreachable until shutdown stopped waiting.
    GaveUp,
    /// Another host has taken the lease: the batch's term is over.
    Superseded,
}

impl<S: Sink> Committer<S> {
    pub(super) fn new(
        sink: S,
        live_status: Arc<LiveStatus>,
        observer: Arc<dyn Observer>,
        clock: Clock,
        random: Random,
        timing: Timing,
        give_up: CancellationToken,
    ) -> Self {
        let rejections = Throttle::new(clock.clone(), REJECTED_BURST, REJECTED_EVERY_US);
        let statuses = Throttle::new(clock, STATUS_BURST, STATUS_EVERY_US);
        Self { sink, live_status, observer, random, timing, rejections, statuses, give_up }
    }

    /// Returns when the batch is committed, with the records that the database can't store.
    pub(super) async fn commit(&self, batch: Batch) -> Result<Vec<RecordUri>, CommitError> {
        let mut refused = Vec::new();
        let mut pieces = vec![batch];
        let mut max_refusals = MAX_REFUSALS;
        while let Some(piece) = pieces.pop() {
            match self.attempt(&piece, max_refusals).await? {
                Outcome::Done(applied) => refused.extend(self.report(applied)),
                Outcome::Refused(error) => {
                    // The whole batch was already refused often enough, so split each piece at its first refusal.
                    max_refusals = 1;
                    match split(piece) {
                        Pieces::Two(first, second) => pieces.extend([second, first]),
                        Pieces::OneRow(row) => refused.extend(self.drop_row(row, &error).await?),
                        // No row is at fault, so the database is broken: wait until it is repaired.
                        Pieces::NoRow(cursor) => {
                            max_refusals = MAX_REFUSALS;
                            pieces.push(cursor);
                        }
                    }
                }
            }
        }
        Ok(refused)
    }

    /// Retries until the piece is committed or was refused `max_refusals` times.
    async fn attempt(&self, piece: &Batch, max_refusals: u32) -> Result<Outcome, CommitError> {
        let mut backoff = Backoff::new(self.timing.commit_retry, self.timing.commit_retry_cap);
        let mut refusals = 0;
        loop {
            let error = match self.sink.apply(piece).await {
                Ok(applied) => {
                    self.live_status.committed(piece.cursor.as_ref().map(|c| c.cursor));
                    self.observer.committed(&piece.changes);
                    return Ok(Outcome::Done(applied));
                }
                Err(error) => error,
            };
            if matches!(error, StoreError::Superseded) {
                return Err(CommitError::Superseded);
            }
            self.live_status.commit_failed();
            metrics::counter!("belvedere_stream_commit_errors_total").increment(1);
            // The wait below limits how often this is logged.
            tracing::warn!(%error, changes = piece.changes.len(), "the index writer can't commit");
            if !matches!(error, StoreError::Unavailable(_)) {
                refusals += 1;
                if refusals >= max_refusals {
                    return Ok(Outcome::Refused(error));
                }
            }
            tokio::select! {
                () = tokio::time::sleep(backoff.next(&self.random)) => {}
                () = self.give_up.cancelled() => return Err(CommitError::GaveUp),
            }
        }
    }

    /// Drops one refused row, but only after the database has accepted a batch without rows, and has then refused the
    /// row again. So a database that refuses everything loses no rows. Returns the record, if it was dropped.
    async fn drop_row(&self, row: Batch, error: &StoreError) -> Result<Vec<RecordUri>, CommitError> {
        let probe = Batch {
            cursor: Some(StreamCursor { source: "probe".to_owned(), cursor: 0, commits_until: None }),
            now: row.now,
            ..Batch::default()
        };
        loop {
            if let Outcome::Done(_) = self.attempt(&probe, MAX_REFUSALS).await? {
                break;
            }
        }
        if let Outcome::Done(applied) = self.attempt(&row, MAX_REFUSALS).await? {
            return Ok(self.report(applied));
        }
        let refused = subject(&row);
        match &refused {
            Some(uri) => self.reject(uri.clone(), error.to_string()),
            None => {
                tracing::error!(%error, accounts = ?row.accounts, "the database refused an account's status");
            }
        }
        Ok(refused.into_iter().collect())
    }

    /// Reports the effects of a batch. Returns the records that the database can't store.
    fn report(&self, applied: ApplyReport) -> Vec<RecordUri> {
        let add = |operation: &'static str, n: u64| {
            if n > 0 {
                metrics::counter!("belvedere_index_changes_total", "result" => operation).increment(n);
            }
        };
        add("inserted", applied.inserted);
        add("updated", applied.updated);
        add("deleted", applied.deleted);
        add("stale", applied.stale);
        add("purged", applied.purged);
        for AccountChange { did, status, .. } in applied.statuses {
            if let Some(held_back) = self.statuses.pass() {
                tracing::debug!(%did, status = status.as_str(), held_back, "an account's status has changed");
                self.observer.report(StreamReport::AccountStatus { did, status });
            }
        }
        let mut refused = Vec::with_capacity(applied.rejected.len());
        for RejectedRecord { uri, reason } in applied.rejected {
            refused.push(uri.clone());
            self.reject(uri, reason);
        }
        refused
    }

    fn reject(&self, uri: RecordUri, reason: String) {
        metrics::counter!("belvedere_index_changes_total", "result" => "rejected").increment(1);
        if let Some(held_back) = self.rejections.pass() {
            tracing::warn!(%uri, reason, held_back, "the database refused a record");
            self.observer.report(StreamReport::Rejected { uri, reason });
        }
    }
}

enum Outcome {
    Done(ApplyReport),
    Refused(StoreError),
}

enum Pieces {
    Two(Batch, Batch),
    OneRow(Batch),
    NoRow(Batch),
}

/// Splits a batch in halves. Keeps the order: account statuses, record changes, and the repairs and the cursor in the
/// last piece only.
fn split(mut batch: Batch) -> Pieces {
    let rows = batch.accounts.len() + batch.changes.len();
    match (rows, &batch.cursor) {
        (0, _) => return Pieces::NoRow(batch),
        (1, None) if batch.repairs.is_empty() => return Pieces::OneRow(batch),
        _ => {}
    }
    // With one row and a cursor or repairs, the second piece has only these.
    let half = rows.div_ceil(2);
    let accounts = batch.accounts.split_off(half.min(batch.accounts.len()));
    let changes = batch.changes.split_off((half - batch.accounts.len()).min(batch.changes.len()));
    let repairs = std::mem::take(&mut batch.repairs);
    let second = Batch { accounts, changes, repairs, cursor: batch.cursor.take(), ..batch };
    Pieces::Two(batch, second)
}

/// The record of a batch of one row; `None` when the row is an account.
fn subject(batch: &Batch) -> Option<RecordUri> {
    batch.changes.first().map(|change| change.uri.clone())
}

#[cfg(test)]
mod tests {
    use belvedere_base::clock::Timestamp;

    use super::super::testing::{FakeStore, Recorder, delete};
    use super::*;

    fn committer(store: &Arc<FakeStore>, recorder: &Arc<Recorder>) -> Committer<Arc<FakeStore>> {
        let clock = Clock::system();
        Committer::new(
            store.clone(),
            Arc::new(LiveStatus::new(clock.clone(), Timing::default())),
            recorder.clone(),
            clock,
            Random::seeded(1),
            Timing::default(),
            CancellationToken::new(),
        )
    }

    fn batch(n: u64) -> Batch {
        let changes = (0..n).map(|i| delete("a", &format!("k{i}"), i + 1)).collect();
        let cursor = Some(StreamCursor { source: "jetstream".into(), cursor: 77, commits_until: None });
        Batch { changes, cursor, now: Timestamp(1), ..Batch::default() }
    }

    #[tokio::test(start_paused = true)]
    async fn waits_for_an_unreachable_database() {
        let (store, recorder) = (Arc::new(FakeStore::default()), Arc::new(Recorder::default()));
        store.fail_next(50);
        committer(&store, &recorder).commit(batch(3)).await.unwrap();
        assert_eq!(store.cursor(), Some(77));
        assert_eq!(store.applied_changes(), 3);
        assert!(recorder.reports().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn only_the_refused_row_is_dropped() {
        let (store, recorder) = (Arc::new(FakeStore::default()), Arc::new(Recorder::default()));
        store.refuse_rkey("k5");
        committer(&store, &recorder).commit(batch(9)).await.unwrap();
        assert_eq!(store.cursor(), Some(77));
        assert_eq!(store.applied_changes(), 8);
        let reports = recorder.reports();
        assert!(
            matches!(&reports[..], [StreamReport::Rejected { uri, .. }] if uri.rkey.as_str() == "k5"),
            "{reports:?}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_database_that_refuses_everything_loses_nothing() {
        let (store, recorder) = (Arc::new(FakeStore::default()), Arc::new(Recorder::default()));
        store.refuse_next(200);
        committer(&store, &recorder).commit(batch(4)).await.unwrap();
        assert_eq!((store.cursor(), store.applied_changes()), (Some(77), 4));
        assert!(recorder.reports().is_empty());
    }

    #[test]
    fn split_keeps_order_and_the_cursor_last() {
        let mut stack = vec![batch(7)];
        let mut seen = Vec::new();
        while let Some(piece) = stack.pop() {
            match split(piece) {
                Pieces::Two(a, b) => stack.extend([b, a]),
                Pieces::OneRow(row) => seen.push(subject(&row).unwrap().to_string()),
                Pieces::NoRow(cursor) => seen.push(format!("{:?}", cursor.cursor.unwrap().cursor)),
            }
        }
        let expected: Vec<_> = (0..7).map(|i| format!("at://did:plc:a/app.example.note/k{i}")).collect();
        assert_eq!(seen[..7], expected[..]);
        assert_eq!(seen[7..], ["77"]);
    }
}
