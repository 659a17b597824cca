//! A connection to the primary on which a host learns of writes and of the primary's position.
//!
//! Hosts announce the writers of records over NOTIFY (`writes`). PostgreSQL passes an announcement to a listening session
//! before it answers the session's next statement, if the announcement was committed before. So after one round trip on
//! the listening connection a host knows of all writes that were answered before the round trip began. One round trip
//! serves all reads that have arrived in the meantime.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::store::StoreError;
use crate::store::dedicated_connection::DedicatedConnection;
use crate::store::postgres::Postgres;

use super::probe::Identity;
use super::writes::{CHANNEL, RecentWrites, announce};
use crate::store::read_pool::position::{History, Lag, Position, position_sql};

/// Maximum interval between two look-ups of the primary's position.
const SAMPLE_EVERY: Duration = Duration::from_secs(1);
/// A primary that takes longer to answer counts as lost.
const TIMEOUT: Duration = Duration::from_secs(3);
/// Delay between two attempts to connect.
const RECONNECT_DELAY: Duration = Duration::from_secs(1);
/// Time that a read waits for a round trip before it goes to the primary. Normally it takes a fraction of a
/// millisecond.
const MAX_WAIT: Duration = Duration::from_millis(250);
/// Reads that wait for a round trip; others go to the primary.
const MAX_WAITING: usize = 4_096;

/// Replicas receive only what is flushed. Rows that were inserted may stay unflushed while nothing is committed.
const POSITIONS: &str = concat!(
    "SELECT ",
    position_sql!("pg_current_wal_flush_lsn()"),
    ", ",
    position_sql!("pg_current_wal_insert_lsn()")
);

/// The positions of the primary.
struct Positions {
    flushed: Position,
    /// Includes all commits.
    inserted: Position,
}

/// A host's state of the primary.
#[derive(Debug)]
pub(super) struct Link {
    waiting: mpsc::Sender<oneshot::Sender<()>>,
    writes: Mutex<RecentWrites>,
    primary: Mutex<Primary>,
    /// Cancelled when the primary was connected for the first time.
    connected: CancellationToken,
}

#[derive(Debug, Default)]
struct Primary {
    /// `None` while it is not connected.
    identity: Option<Identity>,
    history: History,
}

/// The reads that wait for a round trip, for [`Link::run`].
pub(super) type Waiting = mpsc::Receiver<oneshot::Sender<()>>;

impl Link {
    pub(super) fn new() -> (Self, Waiting) {
        let (waiting, receiver) = mpsc::channel(MAX_WAITING);
        let (writes, primary, connected) = Default::default();
        (Self { waiting, writes, primary, connected }, receiver)
    }

    pub(super) fn writes(&self) -> MutexGuard<'_, RecentWrites> {
        // Each step leaves the writes consistent.
        self.writes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn primary(&self) -> MutexGuard<'_, Primary> {
        self.primary.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until all writes are known that were answered before this call. `false` when that is not certain.
    pub(super) async fn catch_up(&self) -> bool {
        let (done, caught_up) = oneshot::channel();
        if self.waiting.try_send(done).is_err() {
            return false;
        }
        matches!(tokio::time::timeout(MAX_WAIT, caught_up).await, Ok(Ok(())))
    }

    /// Waits until the primary was connected once.
    pub(super) async fn connected(&self) {
        self.connected.cancelled().await;
    }

    /// `None` while the primary is not connected.
    pub(super) fn identity(&self) -> Option<Identity> {
        self.primary().identity
    }

    pub(super) fn lag(&self, replayed: Position, now: Instant) -> Option<Lag> {
        self.primary().history.lag(replayed, now)
    }

    pub(super) fn was_behind(&self, position: Position, time: Instant) -> bool {
        self.primary().history.was_behind(position, time)
    }

    /// Keeps the connection until `stop` is cancelled.
    pub(super) async fn run(&self, db: Postgres, mut waiting: Waiting, stop: CancellationToken) {
        loop {
            let ended = stop.run_until_cancelled(self.follow(&db, &mut waiting)).await;
            let was_connected = self.primary().identity.take().is_some();
            let Some(error) = ended else { return };
            if was_connected {
                tracing::warn!(%error, "the connection that tells which replicas can be used was lost");
            } else {
                tracing::debug!(%error, "the primary can't be asked which replicas can be used");
            }
            // Reads that wait go to the primary.
            let refuse = async { while waiting.recv().await.is_some() {} };
            let pause = tokio::time::timeout(RECONNECT_DELAY, refuse);
            if stop.run_until_cancelled(pause).await.is_none() {
                return;
            }
        }
    }

    /// Connects, and serves until the connection fails.
    async fn follow(&self, db: &Postgres, waiting: &mut Waiting) -> StoreError {
        let timed_out = |_| StoreError::Unavailable(sqlx::Error::PoolTimedOut);
        let connected = tokio::time::timeout(TIMEOUT, self.connect(db)).await;
        let mut connection = match connected.map_err(timed_out).and_then(|result| result) {
            Ok(connection) => connection,
            Err(error) => return error,
        };
        let mut requests = Vec::new();
        loop {
            // A request, or the time of the next sample.
            if let Ok(request) = tokio::time::timeout(SAMPLE_EVERY, waiting.recv()).await {
                requests.extend(request);
            }
            while let Ok(request) = waiting.try_recv() {
                requests.push(request);
            }
            let round_trip = tokio::time::timeout(TIMEOUT, self.round_trip(&mut connection)).await;
            if let Err(error) = round_trip.map_err(timed_out).and_then(|result| result) {
                return error;
            }
            for request in requests.drain(..) {
                // The read may have been given up.
                let _ = request.send(());
            }
            self.announce_again(db).await;
        }
    }

    /// Connects once, for a look from outside the server.
    pub(super) async fn look(&self, db: &Postgres) -> Result<(), StoreError> {
        self.connect(db).await?.close().await;
        Ok(())
    }

    async fn connect(&self, db: &Postgres) -> Result<DedicatedConnection, StoreError> {
        let mut connection = db.dedicated_connection().await?;
        connection.listen(CHANNEL).await?;
        let identity = Identity::of(connection.listener()).await?;
        let asked = Instant::now();
        let Positions { flushed, inserted } = positions(&mut connection).await?;
        self.writes().start_from(inserted);
        let mut primary = self.primary();
        primary.history.clear();
        primary.history.add(asked, flushed);
        primary.identity = Some(identity);
        drop(primary);
        self.connected.cancel();
        Ok(connection)
    }

    async fn round_trip(&self, connection: &mut DedicatedConnection) -> Result<(), StoreError> {
        let asked = Instant::now();
        let Positions { flushed, inserted } = positions(connection).await?;
        self.primary().history.add(asked, flushed);
        while let Some(notification) = connection.listener().next_buffered() {
            self.writes().heard(notification.payload(), inserted);
        }
        Ok(())
    }

    /// Announces writes of this host whose announcement failed.
    async fn announce_again(&self, db: &Postgres) {
        let writers = self.writes().unannounced();
        if writers.is_empty() {
            return;
        }
        match tokio::time::timeout(TIMEOUT, announce(db, &writers)).await {
            Ok(Ok(position)) => self.writes().announced(&writers, position),
            Ok(Err(error)) => tracing::debug!(%error, "writes could not be announced; it is tried again"),
            Err(_) => tracing::debug!("writes could not be announced in time; it is tried again"),
        }
    }
}

/// Reads all rows, so that the answer has ended: notifications arrive at its end.
async fn positions(connection: &mut DedicatedConnection) -> Result<Positions, StoreError> {
    let rows: Vec<(i64, i64)> = sqlx::query_as(POSITIONS).fetch_all(connection.listener()).await?;
    let (flushed, inserted) = rows.first().copied().ok_or(sqlx::Error::RowNotFound)?;
    Ok(Positions { flushed: Position(flushed), inserted: Position(inserted) })
}
