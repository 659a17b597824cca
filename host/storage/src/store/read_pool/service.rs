//! Whether a server beside the primary is used for reads, and why not: a replica, or a node that has shards.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use metrics::{Counter, Gauge};
use tokio_util::sync::CancellationToken;

use belvedere_base::clock::Timestamp;

use super::position::Position;

/// A server that takes longer to answer is not used, and the reads that wait for it run on the primary.
pub(super) const PROBE_TIMEOUT: Duration = Duration::from_secs(1);

/// The reason why a server is not used. The texts are for operators.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unused {
    #[error("it has not answered yet")]
    New,
    #[error("it can't be reached: {0}")]
    Unreachable(String),
    #[error("it does not answer within {PROBE_TIMEOUT:?}")]
    Silent,
    #[error("a read failed: {0}")]
    ReadFailed(String),
    #[error(
        "the server is not a replica: it is not in recovery. Make it follow the server of DATABASE_URL, or take it out of \
         DATABASE_READ_URLS"
    )]
    NotInRecovery,
    #[error(
        "it is a replica of another server. Name streaming replicas of the server of DATABASE_URL in DATABASE_READ_URLS"
    )]
    OtherServer,
    #[error("its URL names another database than DATABASE_URL. Write the same name in DATABASE_READ_URLS")]
    OtherDatabase,
    #[error(
        "it is ahead of the server of DATABASE_URL, so it follows one that was promoted. Make it follow the server of \
         DATABASE_URL"
    )]
    Ahead,
    #[error("{0} migrations have not been replayed there yet")]
    NotMigrated(usize),
    #[error("it is {} s behind, which is more than DATABASE_READ_MAX_LAG_SECONDS", .0.as_secs())]
    Lagging(Duration),
    #[error("how far it is behind is not known yet")]
    Measuring,
    #[error("the server of DATABASE_URL does not answer, so that the lag is not known")]
    LagUnknown,
    #[error(
        "its address leads this host to another server than the coordinator. Hosts and nodes have to reach it by the same name \
         (docs/scaling.md)"
    )]
    OtherNode,
    #[error("the server ends")]
    Ending,
}

impl Unused {
    /// Whether only the operator can mend it.
    pub fn is_misconfigured(&self) -> bool {
        matches!(
            self,
            Self::NotInRecovery | Self::OtherServer | Self::OtherDatabase | Self::Ahead | Self::OtherNode
        )
    }
}

/// The progress of a replica that answers.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::store) struct Progress {
    pub(in crate::store) lag: Option<Duration>,
    /// The commit time of the last transaction that it has replayed, by the primary's clock.
    pub(in crate::store) replayed_at: Option<Timestamp>,
}

/// The state of a server, for operators.
#[derive(Clone, Debug)]
pub struct ServerStatus {
    /// `HOST:PORT`
    pub server: String,
    pub unused: Option<Unused>,
    /// Only replicas have one.
    pub lag: Option<Duration>,
    /// The commit time of the last transaction that a replica has replayed.
    pub replayed_at: Option<Timestamp>,
    /// Statements that this host sent there since it was started.
    pub reads: u64,
    /// Those of them that were repeated on the primary.
    pub repeated: u64,
}

#[derive(Debug)]
struct State {
    /// Cancelled when the server is not used any more, so that no read waits for it.
    in_use: Result<CancellationToken, Unused>,
    progress: Progress,
}

/// The kinds of servers beside the primary.
#[derive(Clone, Copy, Debug)]
pub(in crate::store) enum ServerKind {
    Replica,
    /// A node of a cluster that has shards.
    Node,
}

/// The state of a server, shared by its pools and its watch.
#[derive(Debug)]
pub(in crate::store) struct Service {
    kind: ServerKind,
    server: String,
    state: Mutex<State>,
    /// The position that a replica has replayed at least.
    replayed: AtomicI64,
    /// Whether the coordinator can't reach a node either.
    is_lost: AtomicBool,
    reads: AtomicU64,
    repeated: AtomicU64,
    gauges: Gauges,
}

struct Gauges {
    in_use: Gauge,
    /// Only replicas have one.
    lag: Option<Gauge>,
    reads: Counter,
    repeated: Counter,
}

impl Gauges {
    fn of(kind: ServerKind, server: String) -> Self {
        match kind {
            ServerKind::Replica => {
                let labels = [("replica", server)];
                Self {
                    in_use: metrics::gauge!("belvedere_replica_in_use", &labels),
                    lag: Some(metrics::gauge!("belvedere_replica_lag_seconds", &labels)),
                    reads: metrics::counter!("belvedere_replica_reads_total", &labels),
                    repeated: metrics::counter!("belvedere_replica_repeated_reads_total", &labels),
                }
            }
            ServerKind::Node => {
                let labels = [("node", server)];
                Self {
                    in_use: metrics::gauge!("belvedere_shard_node_in_use", &labels),
                    lag: None,
                    reads: metrics::counter!("belvedere_shard_node_reads_total", &labels),
                    repeated: metrics::counter!("belvedere_shard_node_repeated_reads_total", &labels),
                }
            }
        }
    }
}

impl std::fmt::Debug for Gauges {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Gauges")
    }
}

impl Service {
    /// `server` is its `HOST:PORT`.
    pub(in crate::store) fn new(kind: ServerKind, server: String) -> Self {
        let gauges = Gauges::of(kind, server.clone());
        gauges.in_use.set(0.0);
        let state = Mutex::new(State { in_use: Err(Unused::New), progress: Progress::default() });
        let (replayed, is_lost, reads, repeated) = Default::default();
        Self { kind, server, state, replayed, is_lost, reads, repeated, gauges }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // The state is consistent after every step.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(in crate::store) fn server(&self) -> &str {
        &self.server
    }

    /// `None` while the server is not used. The token is cancelled when it is not used any more.
    pub(in crate::store) fn in_use(&self) -> Option<CancellationToken> {
        self.lock().in_use.as_ref().ok().cloned()
    }

    pub(in crate::store) fn is_in_use(&self) -> bool {
        self.lock().in_use.is_ok()
    }

    /// Whether its reads can't be answered by the primary either, and must not wait there until they fail.
    pub(in crate::store) fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Relaxed)
    }

    pub(in crate::store) fn set_lost(&self, is_lost: bool) {
        self.is_lost.store(is_lost, Ordering::Relaxed);
    }

    /// A position that the replica has replayed; `None` while it is not used.
    pub(in crate::store) fn replayed(&self) -> Option<Position> {
        self.is_in_use().then(|| Position(self.replayed.load(Ordering::Relaxed)))
    }

    /// Checks the position of a replica to which a connection was just made: after a crash it may be behind what it had
    /// replayed before.
    pub(in crate::store) fn check_replayed(&self, position: i64) -> Result<(), sqlx::Error> {
        if position >= self.replayed.load(Ordering::Relaxed) {
            return Ok(());
        }
        let text = "the replica was restarted, or is none any more";
        Err(sqlx::Error::Io(io::Error::new(io::ErrorKind::ConnectionReset, text)))
    }

    pub(in crate::store) fn count_read(&self) {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.gauges.reads.increment(1);
    }

    pub(in crate::store) fn count_repeat(&self) {
        self.repeated.fetch_add(1, Ordering::Relaxed);
        self.gauges.repeated.increment(1);
    }

    /// A read found that the server can't be reached: the next look decides when it is used again.
    pub(in crate::store) fn read_failed(&self, error: &sqlx::Error) {
        let mut state = self.lock();
        if state.in_use.is_ok() {
            self.leave(&mut state, Unused::ReadFailed(error.to_string()));
        }
    }

    /// Stores the result of a look at the server: the position that it has replayed (0 for a node), or why it is not used.
    /// Logs when it changes.
    pub(in crate::store) fn set(&self, result: Result<Position, Unused>, progress: Progress) {
        let mut state = self.lock();
        state.progress = progress;
        if let (Some(gauge), Some(lag)) = (&self.gauges.lag, progress.lag) {
            gauge.set(lag.as_secs_f64());
        }
        match result {
            Err(reason) => self.leave(&mut state, reason),
            Ok(replayed) => {
                self.replayed.store(replayed.0, Ordering::Relaxed);
                if state.in_use.is_err() {
                    state.in_use = Ok(CancellationToken::new());
                    self.gauges.in_use.set(1.0);
                    match self.kind {
                        ServerKind::Replica => {
                            tracing::info!(replica = self.server, "a replica is used for reads");
                        }
                        ServerKind::Node => {
                            tracing::info!(node = self.server, "a node is asked for its shards");
                        }
                    }
                }
            }
        }
    }

    fn leave(&self, state: &mut State, reason: Unused) {
        let before = std::mem::replace(&mut state.in_use, Err(reason.clone()));
        self.gauges.in_use.set(0.0);
        let is_new = match &before {
            Ok(token) => {
                token.cancel();
                true
            }
            Err(known) => std::mem::discriminant(known) != std::mem::discriminant(&reason),
        };
        if is_new && reason != Unused::Ending {
            let reason = reason.to_string();
            match self.kind {
                ServerKind::Replica => tracing::warn!(
                    replica = self.server,
                    reason,
                    "a replica is not used; its reads go to other replicas or to the primary"
                ),
                ServerKind::Node => tracing::warn!(
                    node = self.server,
                    reason,
                    "a node is not asked for its shards; their reads go to the coordinator"
                ),
            }
        }
    }

    pub(in crate::store) fn status(&self) -> ServerStatus {
        let state = self.lock();
        ServerStatus {
            server: self.server.clone(),
            unused: state.in_use.as_ref().err().cloned(),
            lag: state.progress.lag,
            replayed_at: state.progress.replayed_at,
            reads: self.reads.load(Ordering::Relaxed),
            repeated: self.repeated.load(Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_are_abandoned_when_a_server_leaves() {
        let service = Service::new(ServerKind::Replica, "db:5432".to_owned());
        assert!(service.in_use().is_none());
        service.set(Ok(Position(7)), Progress::default());
        let token = service.in_use().unwrap();
        service.set(Ok(Position(7)), Progress::default());
        assert!(!token.is_cancelled());
        service.read_failed(&sqlx::Error::PoolClosed);
        assert!(token.is_cancelled() && service.in_use().is_none());
        assert!(matches!(service.status().unused, Some(Unused::ReadFailed(_))));
        service.set(Ok(Position(7)), Progress::default());
        assert!(!service.in_use().unwrap().is_cancelled());
        assert!(service.check_replayed(7).is_ok() && service.check_replayed(6).is_err());
    }
}
