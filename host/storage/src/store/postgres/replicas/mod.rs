//! Reads from streaming replicas of PostgreSQL (ADR 77).
//!
//! Reads of records that may be slightly old run on a handle of the database whose pools are those of a replica
//! ([`CallerReads`]); everything else stays on the primary. A caller's own writes are never missing: hosts announce
//! who has written (`writes`), and a replica answers a caller only when it has replayed that caller's writes.
//!
//! | Module | |
//! |---|---|
//! | `writes` | who has written what replicas may not have yet |
//! | `link` | a connection to the primary: announcements and its position |
//! | `probe`, `watch` | look at a replica and decide whether it is used |
//! | `replica` | a replica with its pools |
//! | `reads` | chooses the database of a read |

mod link;
mod probe;
mod reads;
mod replica;
mod watch;
mod writes;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

pub use self::reads::{CallerReads, ReadDb};
pub use self::writes::Writer;
use crate::store::read_pool::{PROBE_EVERY, Watched as _};
pub use crate::store::read_pool::{ServerStatus, Unused};

use self::link::{Link, Waiting};
use self::replica::Replica;
use self::watch::Watch;
use super::Postgres;
use crate::store::{Db, StoreError};

/// Maximum number of repetitions of a single look, until the replica has replayed what the primary had when it began.
const MAX_LOOKS: usize = 3;

/// The replicas of the primary.
#[derive(Debug)]
pub(in crate::store) struct Replicas {
    all: Vec<Arc<Replica>>,
    link: Arc<Link>,
    max_lag: Duration,
    /// Taken by the task that serves them.
    waiting: Mutex<Option<Waiting>>,
}

impl Replicas {
    /// Forgets the writes that all replicas in use have replayed, again and again.
    async fn forget_replayed(&self) {
        loop {
            tokio::time::sleep(PROBE_EVERY).await;
            let replayed = self.all.iter().filter_map(|replica| replica.service.replayed());
            if let Some(replayed) = replayed.min() {
                self.link.writes().forget_up_to(replayed);
            }
        }
    }

    pub(super) async fn close(&self) {
        for replica in &self.all {
            replica.close().await;
        }
    }
}

impl Db {
    /// The same database with replicas, each by its URL. Connects to none of them yet: [`Self::watch_replicas`] does.
    ///
    /// # Errors
    /// [`StoreError::Open`] for a malformed URL, and on SQLite.
    pub fn with_replicas(self, urls: &[String], max_lag: Duration) -> Result<Self, StoreError> {
        if urls.is_empty() {
            return Ok(self);
        }
        let Self::Postgres(db) = self else {
            return Err(StoreError::Open("SQLite has no replicas: unset DATABASE_READ_URLS".into()));
        };
        let all = urls.iter().map(|url| Ok(Arc::new(Replica::new(url, &db)?)));
        let all = all.collect::<Result<Vec<_>, StoreError>>()?;
        let (link, waiting) = Link::new();
        let (link, waiting) = (Arc::new(link), Mutex::new(Some(waiting)));
        let replicas = Some(Arc::new(Replicas { all, link, max_lag, waiting }));
        Ok(Self::Postgres(Postgres { replicas, ..db }))
    }

    /// Watches the replicas, and uses those that are well, until `stop` is cancelled. Without replicas it returns at once.
    pub async fn watch_replicas(&self, stop: CancellationToken) {
        let Self::Postgres(db) = self else { return };
        let Some(replicas) = &db.replicas else { return };
        let Some(waiting) = replicas.waiting.lock().unwrap_or_else(PoisonError::into_inner).take() else {
            return;
        };
        let watches = replicas.all.iter().map(|replica| {
            Watch::new(Arc::clone(replica), Arc::clone(&replicas.link), replicas.max_lag).run(stop.clone())
        });
        let following = replicas.link.run(db.clone(), waiting, stop.clone());
        let forgetting = stop.run_until_cancelled(replicas.forget_replayed());
        tokio::join!(following, futures_util::future::join_all(watches), forgetting);
    }

    /// Looks at each replica, for a process that does not watch them.
    ///
    /// # Errors
    /// When the primary can't be looked at.
    pub async fn look_at_replicas(&self) -> Result<Vec<ServerStatus>, StoreError> {
        let Self::Postgres(db) = self else { return Ok(Vec::new()) };
        let Some(replicas) = &db.replicas else { return Ok(Vec::new()) };
        replicas.link.look(db).await?;
        let looks = replicas.all.iter().map(|replica| async move {
            let mut watch = Watch::new(Arc::clone(replica), Arc::clone(&replicas.link), replicas.max_lag);
            for _ in 0..MAX_LOOKS {
                watch.look().await;
                if replica.service.status().unused != Some(Unused::Measuring) {
                    break;
                }
                tokio::time::sleep(PROBE_EVERY).await;
            }
            replica.service.status()
        });
        Ok(futures_util::future::join_all(looks).await)
    }

    /// The replicas as this process knows them; empty without replicas.
    pub fn replicas(&self) -> Vec<ServerStatus> {
        let Self::Postgres(db) = self else { return Vec::new() };
        let replicas = db.replicas.iter().flat_map(|replicas| &replicas.all);
        replicas.map(|replica| replica.service.status()).collect()
    }
}
