//! Remembers who has written what replicas may not have yet, on this host and on the others.
//!
//! After a write, its host announces the writer with the position of the primary at that time (`announce`). Each host
//! remembers the position, and reads for this writer go to replicas only when they have replayed it.

use std::collections::{HashMap, HashSet};
use std::fmt;

use sqlx::Row as _;

use crate::store::postgres::Postgres;
use crate::store::{Db, StoreError};
use belvedere_protocol::atproto::Did;
use belvedere_protocol::crypto::sha256;
use belvedere_web::fair_share::Tenant;

use crate::store::read_pool::position::{Position, position_sql};

/// The channel of the announcements.
pub(super) const CHANNEL: &str = "belvedere_writes";

/// Writers that are remembered by themselves: some seconds of writes. Beyond it reads of all writers wait until a
/// replica has replayed the newest of them.
const MAX_WRITERS: usize = 65_536;

/// A position that no replica has replayed.
const UNKNOWN: Position = Position(i64::MAX);

/// Announces writers, and returns the primary's position. The commit is not waited for: an announcement need not
/// survive a crash of the database, which ends the connections of all who listen, and commits with notifications wait
/// for each other.
const ANNOUNCE: &str = concat!(
    "SELECT ",
    position_sql!("pg_current_wal_insert_lsn()"),
    ", set_config('synchronous_commit', 'off', true), pg_notify($1, writer || ' ' || ",
    position_sql!("pg_current_wal_insert_lsn()"),
    ") FROM unnest($2::text[]) AS writer"
);

/// On whose behalf records are written and read: an account, or an anonymous caller's tenant. A hash of its name, of
/// the same size for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Writer([u8; 16]);

impl Writer {
    pub fn account(did: &Did) -> Self {
        Self::of(did.as_str())
    }

    pub fn tenant(tenant: &Tenant) -> Self {
        Self::of(&tenant.to_string())
    }

    /// DIDs and tenants have no text in common.
    fn of(name: &str) -> Self {
        let hash = sha256(name.as_bytes());
        Self(std::array::from_fn(|n| hash[n]))
    }

    fn parse(text: &str) -> Option<Self> {
        let mut bytes = [0; 16];
        hex::decode_to_slice(text, &mut bytes).ok()?;
        Some(Self(bytes))
    }
}

impl fmt::Display for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

/// Writers whose writes replicas may not have replayed yet.
#[derive(Debug, Default)]
pub(super) struct RecentWrites {
    positions: HashMap<Writer, Position>,
    /// The position for all writers: those that are not remembered by themselves wrote before it.
    floor: Position,
    /// Writers of this host whose announcement failed. Their position is not known.
    unannounced: HashSet<Writer>,
}

impl RecentWrites {
    pub(super) fn add(&mut self, writer: Writer, position: Position) {
        if self.positions.len() >= MAX_WRITERS && !self.positions.contains_key(&writer) {
            self.forget_up_to(UNKNOWN);
        }
        let known = self.positions.entry(writer).or_default();
        *known = position.max(*known);
    }

    /// The position that a replica must have replayed before reads of this writer may go there; `None`: they must not.
    pub(super) fn required(&self, writer: Writer) -> Option<Position> {
        if self.unannounced.contains(&writer) || self.floor == UNKNOWN {
            return None;
        }
        Some(self.positions.get(&writer).copied().unwrap_or_default().max(self.floor))
    }

    /// Forgets the writes that all replicas in use have replayed. A replica that is used later has to have replayed them
    /// too.
    pub(super) fn forget_up_to(&mut self, replayed: Position) {
        let mut floor = self.floor;
        self.positions.retain(|_, position| {
            let is_kept = *position > replayed;
            if !is_kept {
                floor = floor.max(*position);
            }
            is_kept
        });
        self.floor = floor;
    }

    /// Forgets all writes: those that were not announced here happened before `position`.
    pub(super) fn start_from(&mut self, position: Position) {
        self.positions.clear();
        self.floor = position;
    }

    /// Notes an announcement of any host. One that this version can't read counts for all writers, up to `now`.
    pub(super) fn heard(&mut self, announcement: &str, now: Position) {
        let parsed = announcement
            .split_once(' ')
            .and_then(|(writer, position)| Some((Writer::parse(writer)?, Position(position.parse().ok()?))));
        match parsed {
            Some((writer, position)) => self.add(writer, position),
            None => self.floor = self.floor.max(now),
        }
    }

    /// Beyond the bound all reads stay on the primary until an announcement succeeds.
    pub(super) fn keep_unannounced(&mut self, writers: &[Writer]) {
        if self.unannounced.len() + writers.len() <= MAX_WRITERS {
            self.unannounced.extend(writers);
        } else {
            self.floor = UNKNOWN;
        }
    }

    /// The writers whose announcement failed.
    pub(super) fn unannounced(&self) -> Vec<Writer> {
        self.unannounced.iter().copied().collect()
    }

    pub(super) fn announced(&mut self, writers: &[Writer], position: Position) {
        if self.floor == UNKNOWN {
            self.floor = position;
        }
        for writer in writers {
            self.unannounced.remove(writer);
            self.add(*writer, position);
        }
    }
}

impl Db {
    /// Must be called after records were written on someone's behalf, before the caller gets the answer: the writers' next
    /// reads see the write, on every host.
    pub async fn announce_writes(&self, writers: &[Writer]) {
        let Self::Postgres(db) = self else { return };
        let announced = announce(db, writers).await;
        if let Err(error) = &announced {
            tracing::warn!(%error, "a write could not be announced: for seconds, other hosts may read an older state");
        }
        let Some(replicas) = &db.replicas else { return };
        let mut known = replicas.link.writes();
        match announced {
            Ok(position) => known.announced(writers, position),
            Err(_) => known.keep_unannounced(writers),
        }
    }
}

/// Tells all hosts who has written, and returns a position that includes the writes.
pub(super) async fn announce(db: &Postgres, writers: &[Writer]) -> Result<Position, StoreError> {
    let names: Vec<String> = writers.iter().map(Writer::to_string).collect();
    // An announcement may arrive twice without harm, so it is repeated like a read.
    let rows = sqlx::query(ANNOUNCE).bind(CHANNEL).bind(names).fetch_all(db.reader()).await?;
    let positions = rows.iter().map(|row| row.try_get(0).map(Position));
    Ok(positions.collect::<Result<Vec<_>, _>>()?.into_iter().max().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn writer(name: &str) -> Writer {
        Writer::of(name)
    }

    #[test]
    fn a_writer_waits_for_the_own_writes_only() {
        let mut writes = RecentWrites::default();
        writes.add(writer("a"), Position(20));
        writes.add(writer("a"), Position(10));
        assert_eq!(writes.required(writer("a")), Some(Position(20)));
        assert_eq!(writes.required(writer("b")), Some(Position(0)));
        writes.add(writer("c"), Position(30));
        writes.forget_up_to(Position(25));
        assert_eq!(writes.positions.len(), 1);
        assert_eq!(writes.required(writer("b")), Some(Position(20)), "a replica that returns has to have it");
        assert_eq!(writes.required(writer("c")), Some(Position(30)));
    }

    #[test]
    fn beyond_the_bound_everyone_waits() {
        let mut writes = RecentWrites::default();
        for n in 0..=MAX_WRITERS {
            writes.add(writer(&n.to_string()), Position(n.cast_signed() as i64));
        }
        assert_eq!(writes.positions.len(), 1);
        assert_eq!(writes.required(writer("0")), Some(Position(MAX_WRITERS.cast_signed() as i64 - 1)));
    }

    #[test]
    fn announcements_are_read_back() {
        let mut writes = RecentWrites::default();
        writes.heard(&format!("{} 77", writer("a")), Position(100));
        assert_eq!(writes.required(writer("a")), Some(Position(77)));
        assert_eq!(writes.required(writer("b")), Some(Position(0)));
        writes.heard("of a later version", Position(100));
        assert_eq!(writes.required(writer("b")), Some(Position(100)));
        writes.start_from(Position(5));
        assert_eq!(writes.required(writer("a")), Some(Position(5)));
    }

    #[test]
    fn a_writer_who_was_not_announced_reads_from_the_primary() {
        let mut writes = RecentWrites::default();
        writes.keep_unannounced(&[writer("a")]);
        assert_eq!((writes.required(writer("a")), writes.unannounced()), (None, vec![writer("a")]));
        writes.announced(&[writer("a")], Position(9));
        assert_eq!((writes.required(writer("a")), writes.unannounced()), (Some(Position(9)), vec![]));
        writes.keep_unannounced(&vec![writer("b"); MAX_WRITERS + 1]);
        assert!(writes.unannounced().is_empty(), "the list is bounded");
        assert_eq!(writes.required(writer("c")), None);
        writes.announced(&[writer("c")], Position(11));
        assert_eq!(writes.required(writer("d")), Some(Position(11)));
    }
}
