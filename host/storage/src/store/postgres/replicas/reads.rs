//! Chooses the database of a read.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::store::Db;

use super::replica::Replica;
use super::{Replicas, Writer};

/// The reads of one call or run, on behalf of its caller.
#[derive(Debug)]
pub struct CallerReads {
    caller: Writer,
    /// Whether all writes are known that were answered before the call came.
    is_caught_up: AtomicBool,
    /// Whether the run has written.
    has_written: AtomicBool,
}

/// The database that answers a read: a replica, or the primary.
#[derive(Debug)]
pub struct ReadDb<'a>(Chosen<'a>);

#[derive(Debug)]
enum Chosen<'a> {
    Primary(&'a Db),
    Replica(Arc<Replica>),
}

impl Deref for ReadDb<'_> {
    type Target = Db;

    fn deref(&self) -> &Db {
        match &self.0 {
            Chosen::Primary(db) => db,
            Chosen::Replica(replica) => replica.db(),
        }
    }
}

impl<'a> ReadDb<'a> {
    /// For a read that must see the newest state.
    pub fn primary(db: &'a Db) -> Self {
        Self(Chosen::Primary(db))
    }
}

impl CallerReads {
    /// `None` without replicas. Made for each call, because it remembers what was known when the call came.
    pub fn of(db: &Db, caller: impl FnOnce() -> Writer) -> Option<Self> {
        replicas(db)?;
        let (is_caught_up, has_written) = Default::default();
        Some(Self { caller: caller(), is_caught_up, has_written })
    }

    /// The rest of the reads go to the primary.
    pub fn set_written(&self) {
        self.has_written.store(true, Ordering::Relaxed);
    }

    /// The database for one read.
    pub async fn database<'a>(&self, db: &'a Db) -> ReadDb<'a> {
        let replica = match replicas(db) {
            Some(replicas) if !self.has_written.load(Ordering::Relaxed) => self.choose(replicas).await,
            _ => None,
        };
        ReadDb(replica.map_or(Chosen::Primary(db), Chosen::Replica))
    }

    async fn choose(&self, replicas: &Replicas) -> Option<Arc<Replica>> {
        if !replicas.all.iter().any(|replica| replica.service.is_in_use()) {
            return None;
        }
        if !self.is_caught_up.load(Ordering::Relaxed) {
            if !replicas.link.catch_up().await {
                return None;
            }
            self.is_caught_up.store(true, Ordering::Relaxed);
        }
        let required = replicas.link.writes().required(self.caller)?;
        replicas.least_used(|replica| replica.service.replayed().is_some_and(|replayed| replayed >= required))
    }
}

impl Db {
    /// The database for the reads of one call: a replica if there are any and one may answer.
    pub async fn read_for(&self, caller: impl FnOnce() -> Writer) -> ReadDb<'_> {
        match CallerReads::of(self, caller) {
            Some(reads) => reads.database(self).await,
            None => ReadDb::primary(self),
        }
    }
}

fn replicas(db: &Db) -> Option<&Replicas> {
    match db {
        Db::Sqlite(_) => None,
        Db::Postgres(db) => db.replicas.as_deref(),
    }
}

impl Replicas {
    /// The suitable replica with the fewest reads at present. Equal ones take turns.
    fn least_used(&self, is_suitable: impl Fn(&Replica) -> bool) -> Option<Arc<Replica>> {
        static TURN: AtomicUsize = AtomicUsize::new(0);
        let (first, count) = (TURN.fetch_add(1, Ordering::Relaxed), self.all.len());
        let in_turn = (0..count).map(|n| &self.all[first.wrapping_add(n) % count]);
        in_turn.filter(|replica| is_suitable(replica)).min_by_key(|replica| replica.load()).cloned()
    }
}
