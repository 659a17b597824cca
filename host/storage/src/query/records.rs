//! The arguments of reads of records. They are checked where one of these is made of a request or of a script's call.

use belvedere_protocol::atproto::{Did, Nsid};

use super::position::Position;
use super::sort::{Direction, Sort, SortKey, SortKeyset};
use super::{Filter, Hidden, Keyset, Narrow, PageSize};

/// A query for a page of records.
#[derive(Clone, Debug)]
pub struct Query {
    pub collection: Nsid,
    pub did: Option<Did>,
    /// Only records of these accounts.
    pub dids: Option<Vec<Did>>,
    pub filter: Option<Filter>,
    /// Further conditions, which lists of the admin API and views have.
    pub narrow: Narrow,
    /// Only records that their lexicon accepts, or only those that it rejects.
    pub valid: Option<bool>,
    /// Newest first without one.
    pub sort: Option<Sort>,
    /// Whether rows have their CID.
    pub with_cid: bool,
    /// The position at which the page before ended, in the order of this query.
    pub after: Option<Position>,
    /// Whether the page is the one that ends before the position `after`. Its rows are in the order of this query.
    pub is_backwards: bool,
    /// Rows of the page, see [`PageSize::clamp`].
    pub limit: u32,
}

/// Links of records of a collection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Links {
    pub collection: Nsid,
    /// The place in the records where the link is (`subject.uri`); `None`: anywhere.
    pub path: Option<String>,
}

/// A text is not the place of a link, as the index names it: without positions in arrays.
#[derive(Debug, thiserror::Error)]
#[error("{0:?} is not the path of a link, such as subject.uri")]
pub struct InvalidLinkPath(String);

impl Links {
    /// # Errors
    /// When the path is none.
    pub fn new(collection: Nsid, path: Option<String>) -> Result<Self, InvalidLinkPath> {
        match path {
            Some(path) if path.is_empty() || path.contains([' ', '\0']) => Err(InvalidLinkPath(path)),
            path => Ok(Self { collection, path }),
        }
    }
}

/// A query for a page of backlinks: the records of a collection that refer to a target, last created first.
#[derive(Clone, Debug)]
pub struct Backlinks {
    /// The links of which records, and where in them.
    pub links: Links,
    /// The target's AT URI or DID, spelled as in the records.
    pub target: String,
    pub did: Option<Did>,
    /// The position at which the page before ended.
    pub after: Option<Position>,
    /// Rows of the page, see [`PageSize::clamp`].
    pub limit: u32,
    /// Whether the rows have only their place: their records are empty objects, and they have no CID.
    pub uris_only: bool,
}

/// The first records of a collection that belong to each of several targets.
#[derive(Clone, Debug)]
pub struct Related {
    pub collection: Nsid,
    pub relation: Relation,
    /// Newest first, or oldest first.
    pub direction: Direction,
    /// Records of each target, at most.
    pub limit: u32,
    pub hidden: Hidden,
}

/// The records that link to any of several targets: a level of a tree.
#[derive(Clone, Debug)]
pub struct Below {
    pub links: Links,
    /// Records of all targets together, at most: the oldest of the first targets.
    pub limit: u32,
    pub hidden: Hidden,
}

/// The reason why a record belongs to a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Relation {
    /// It links to the target, an AT URI or a DID, at this path; without one anywhere.
    Link { path: Option<String> },
    /// The target is the DID of its author.
    Author,
}

impl Query {
    /// The first page of a collection, newest first.
    pub fn of(collection: Nsid) -> Self {
        Self {
            collection,
            did: None,
            dids: None,
            filter: None,
            narrow: Narrow::default(),
            valid: None,
            sort: None,
            with_cid: false,
            after: None,
            is_backwards: false,
            limit: PageSize::RECORDS.default,
        }
    }

    /// Whether it has conditions beyond an account and the validity.
    pub(crate) fn has_conditions(&self) -> bool {
        self.filter.is_some() || self.dids.is_some() || self.narrow != *Narrow::ALL
    }

    /// The accounts of a list of theirs in the order of time, if its other conditions leave few records out.
    pub(crate) fn timeline(&self) -> Option<&[Did]> {
        let is_plain = self.filter.is_none() && self.valid != Some(false) && self.narrow.only_hides();
        self.dids.as_deref().filter(|_| is_plain && self.did.is_none() && self.is_by_time())
    }

    /// Whether its rows are in the order in which they were indexed, or in the reverse.
    pub(crate) fn is_by_time(&self) -> bool {
        self.sort.as_ref().is_none_or(|sort| sort.key == SortKey::IndexedAt && sort.then.is_empty())
    }

    /// The direction in which rows are read, if they are in the order of time.
    pub(crate) fn direction(&self) -> Direction {
        let direction = self.sort.as_ref().map_or(Direction::Desc, |sort| sort.direction);
        if self.is_backwards { direction.reversed() } else { direction }
    }

    /// The row after which the page begins, if it is by time.
    pub(crate) fn after_time(&self) -> Option<Keyset> {
        match self.after.as_ref()? {
            Position::Time(keyset) => Some(*keyset),
            Position::Sorted(keyset) if self.is_by_time() => keyset.as_time(),
            Position::Sorted(_) => None,
        }
    }

    /// The row after which the page begins, if it is by a value.
    pub(crate) fn after_value(&self) -> Option<&SortKeyset> {
        match self.after.as_ref()? {
            Position::Sorted(keyset) => Some(keyset),
            Position::Time(_) => None,
        }
    }
}
