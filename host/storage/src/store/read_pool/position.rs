//! Positions in PostgreSQL's log of changes (WAL), and how far a replica is behind the primary.
//!
//! The lag of a replica is the time since the primary was at the position that the replica has replayed. It is measured
//! with this host's clock alone: the clocks of the database servers may differ, and the commit time of the last
//! replayed transaction says nothing while nothing is written, or while the replica receives nothing.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// The shortest time between two samples that are kept.
const SAMPLE_EVERY: Duration = Duration::from_millis(100);

/// Time for which samples are kept: longer than the largest lag that a replica in use may have.
pub(in crate::store) const KEPT: Duration = Duration::from_secs(330);

/// A position in the WAL, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::store) struct Position(pub(in crate::store) i64);

/// SQL of an expression of the type `pg_lsn` as a [`Position`].
macro_rules! position_sql {
    ($lsn:literal) => {
        concat!("pg_wal_lsn_diff(", $lsn, ", '0/0')::bigint")
    };
}
pub(in crate::store) use position_sql;

/// The position that a replica has replayed; 0 for a server that is not in recovery.
pub(in crate::store) const REPLAYED: &str = concat!(
    "SELECT CASE WHEN pg_is_in_recovery() THEN ",
    position_sql!("pg_last_wal_replay_lsn()"),
    " ELSE 0 END"
);

#[derive(Clone, Copy, Debug)]
struct Sample {
    /// The time before the primary was asked.
    at: Instant,
    position: Position,
}

/// The primary's positions at earlier times.
#[derive(Debug, Default)]
pub(in crate::store) struct History(VecDeque<Sample>);

/// The age of a replica's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) enum Lag {
    AtMost(Duration),
    /// The replica is behind all that is known.
    MoreThan(Duration),
}

impl History {
    /// Positions of one primary only grow; those of another one begin with [`Self::clear`].
    pub(in crate::store) fn add(&mut self, at: Instant, position: Position) {
        if self.0.back().is_some_and(|last| at.saturating_duration_since(last.at) < SAMPLE_EVERY) {
            return;
        }
        while self.0.front().is_some_and(|first| at.saturating_duration_since(first.at) > KEPT) {
            self.0.pop_front();
        }
        self.0.push_back(Sample { at, position });
    }

    pub(in crate::store) fn clear(&mut self) {
        self.0.clear();
    }

    /// The lag of a replica that has replayed everything up to a position; `None` while nothing is known.
    pub(in crate::store) fn lag(&self, replayed: Position, now: Instant) -> Option<Lag> {
        let first = self.0.front()?;
        let after = self.0.partition_point(|sample| sample.position <= replayed);
        let since = |at: Instant| now.saturating_duration_since(at);
        Some(match after.checked_sub(1).and_then(|newest| self.0.get(newest)) {
            Some(newest) => Lag::AtMost(since(newest.at)),
            None => Lag::MoreThan(since(first.at)),
        })
    }

    /// Whether the primary was behind a position after `time`. A replica that had replayed it by then follows another
    /// server.
    pub(in crate::store) fn was_behind(&self, position: Position, time: Instant) -> bool {
        self.0.back().is_some_and(|last| last.at > time && last.position < position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lag_is_the_age_of_the_replayed_position() {
        let (mut history, start) = (History::default(), Instant::now());
        let second = |n: u64| start + Duration::from_secs(n);
        assert_eq!(history.lag(Position(5), start), None);
        for (n, position) in [(0, 10), (1, 20), (2, 20), (3, 30)] {
            history.add(second(n), Position(position));
        }
        let lag = |position| history.lag(Position(position), second(4));
        assert_eq!(lag(30), Some(Lag::AtMost(Duration::from_secs(1))));
        assert_eq!(lag(29), Some(Lag::AtMost(Duration::from_secs(2))), "everything of the third sample");
        assert_eq!(lag(10), Some(Lag::AtMost(Duration::from_secs(4))));
        assert_eq!(lag(9), Some(Lag::MoreThan(Duration::from_secs(4))));
    }

    #[test]
    fn a_replica_that_is_ahead_is_noticed() {
        let (mut history, start) = (History::default(), Instant::now());
        history.add(start, Position(10));
        assert!(!history.was_behind(Position(11), start), "the primary may have gone on since");
        history.add(start + Duration::from_secs(1), Position(10));
        assert!(history.was_behind(Position(11), start));
        assert!(!history.was_behind(Position(10), start));
    }

    #[test]
    fn the_history_is_bounded() {
        let (mut history, start) = (History::default(), Instant::now());
        for n in 0..100_000_u64 {
            history.add(start + Duration::from_millis(20 * n), Position(n.cast_signed()));
        }
        let most = KEPT.as_millis() / SAMPLE_EVERY.as_millis() + 1;
        assert!((history.0.len() as u128) <= most && history.0.len() > 3_000, "{}", history.0.len());
    }
}
