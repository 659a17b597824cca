//! The log of changes to the records of a repo (spaces.md §6.3).

use std::fmt;
use std::str::FromStr;

use super::RecordPath;
use crate::atproto::{Cid, Tid};

/// One change to one record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Op {
    pub position: Position,
    pub path: RecordPath,
    pub change: Change,
}

/// The CIDs of the record before and after a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    Create { cid: Cid },
    Update { cid: Cid, prev: Cid },
    Delete { prev: Cid },
}

impl Change {
    /// `None` when the record existed neither before nor after: that is no change.
    pub fn of(prev: Option<Cid>, cid: Option<Cid>) -> Option<Self> {
        match (prev, cid) {
            (None, Some(cid)) => Some(Self::Create { cid }),
            (Some(prev), Some(cid)) => Some(Self::Update { cid, prev }),
            (Some(prev), None) => Some(Self::Delete { prev }),
            (None, None) => None,
        }
    }

    /// The record after the change.
    pub fn cid(self) -> Option<Cid> {
        match self {
            Self::Create { cid } | Self::Update { cid, .. } => Some(cid),
            Self::Delete { .. } => None,
        }
    }

    /// The record before the change.
    pub fn prev(self) -> Option<Cid> {
        match self {
            Self::Create { .. } => None,
            Self::Update { prev, .. } | Self::Delete { prev } => Some(prev),
        }
    }
}

/// The position of a change in its log, and the cursor of a page that ends with it: `<rev>:<index>`.
///
/// A cursor with the rev alone would lose the rest of a commit whose changes are on two pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The commit.
    pub rev: Tid,
    /// The number of the change in its commit, from 0.
    pub index: u32,
}

/// Error for a text that is not a cursor of the log.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
#[error("the cursor is not <rev>:<number>")]
pub struct InvalidPosition;

impl Position {
    /// The position after all changes of a commit: `since=<rev>` continues there.
    pub fn end_of(rev: Tid) -> Self {
        Self { rev, index: u32::MAX }
    }
}

impl FromStr for Position {
    type Err = InvalidPosition;

    fn from_str(text: &str) -> Result<Self, InvalidPosition> {
        let (rev, digits) = text.split_once(':').ok_or(InvalidPosition)?;
        let rev = Tid::try_from(rev).map_err(|_| InvalidPosition)?;
        let index = digits.parse().map_err(|_| InvalidPosition)?;
        let position = Self { rev, index };
        // Refuses signs and leading zeros.
        if position.to_string() == text { Ok(position) } else { Err(InvalidPosition) }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.rev, self.index)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_cursor_is_a_rev_and_a_number() {
        let position: Position = "3lzzzzzzzzz22:17".parse().unwrap();
        assert_eq!((position.rev.to_string().as_str(), position.index), ("3lzzzzzzzzz22", 17));
        for wrong in [
            "",
            "3lzzzzzzzzz22",
            ":1",
            "3lzzzzzzzzz22:",
            "3lzzzzzzzzz22:-1",
            "3lzzzzzzzzz22:+1",
            "3lzzzzzzzzz22:01",
            "3lzzzzzzzzz22:1:1",
            "now:1",
            "3lzzzzzzzzz22:4294967296",
        ] {
            assert_eq!(wrong.parse::<Position>(), Err(InvalidPosition), "{wrong}");
        }
    }

    #[test]
    fn a_change_has_a_record_before_or_after() {
        let cid = crate::atproto::car::cid_of(b"\xa0");
        for (prev, after) in [(None, Some(cid)), (Some(cid), Some(cid)), (Some(cid), None)] {
            let change = Change::of(prev, after).unwrap();
            assert_eq!((change.prev(), change.cid()), (prev, after));
        }
        assert_eq!(Change::of(None, None), None);
    }

    proptest! {
        #[test]
        fn positions_round_trip_in_order(a in (0..1u64 << 40, any::<u32>()), b in (0..1u64 << 40, any::<u32>())) {
            let [a, b] = [a, b].map(|(time, index)| Position { rev: Tid::new(time, 0).unwrap(), index });
            prop_assert_eq!(a.to_string().parse(), Ok(a));
            prop_assert_eq!(a < b, (a.rev.as_u64(), a.index) < (b.rev.as_u64(), b.index));
            prop_assert!(a <= Position::end_of(a.rev));
        }
    }
}
