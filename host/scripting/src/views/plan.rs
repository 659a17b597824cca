//! A compiled view: the reads that answer it, and the form of the answer.

use belvedere_protocol::atproto::{Nsid, RecordKey};
use belvedere_storage::query::group::{self, GroupError, GroupKey, GroupValue};
use belvedere_storage::query::{Direction, Links, Path, Query, Relation, Sort};

use super::conditions::Conditions;
use super::operand::Operand;

/// A compiled view.
#[derive(Clone, Debug)]
pub struct View {
    pub(super) source: Source,
    pub(super) conditions: Conditions,
    /// Newest first without one.
    pub(super) order: Option<Sort>,
    /// The rows are numbers of records instead of records.
    pub(super) group: Option<Group>,
    pub(super) additions: Vec<Addition>,
    pub(super) hide: Hide,
    pub(super) output: Template,
}

/// The records that a view shows.
#[derive(Clone, Debug)]
pub(super) enum Source {
    List {
        collection: Nsid,
        /// Only records of the accounts to which the records of this one link.
        linked_from: Option<(Operand, Links)>,
    },
    Record {
        uri: Operand,
        collection: Option<Nsid>,
    },
    Tree {
        root: Operand,
        /// From each record to the one above it.
        links: Links,
        depth: Option<Operand>,
        limit: u32,
    },
}

/// Numbers of records by values of theirs.
#[derive(Clone, Debug)]
pub(super) struct Group {
    /// Each has the name that the document gives it.
    pub(super) by: Vec<GroupKey>,
    /// Names of keys, or `count`.
    pub(super) order: Vec<(String, Direction)>,
    pub(super) limit: Option<Operand>,
}

/// The rows that are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Hide {
    pub(super) labels: Vec<String>,
    /// Collections of the viewer's records that link to the accounts to hide.
    pub(super) viewer: Vec<Nsid>,
    /// Collections of the records of the accounts to hide, which link to the viewer.
    pub(super) to_viewer: Vec<Nsid>,
}

/// A named addition to each row.
#[derive(Clone, Debug)]
pub(super) struct Addition {
    /// With a dot if it belongs to a group: `viewer.like`.
    pub(super) name: String,
    pub(super) kind: Kind,
}

#[derive(Clone, Debug)]
pub(super) enum Kind {
    /// The record that the row names at a path.
    Follow { path: Path, collection: Option<Nsid>, joined: Joined },
    /// The first records that belong to a subject.
    List {
        collection: Nsid,
        relation: Relation,
        to: Subject,
        direction: Direction,
        limit: u32,
        joined: Joined,
    },
    /// The number of records that link to a subject.
    Count { links: Links, to: Subject },
    /// The AT URI of the viewer's record that links to a subject.
    Mine { links: Links, to: Subject },
    /// The profile of an account.
    Profile { of: Subject, joined: Joined },
    /// The record of an account with this key.
    Record { collection: Nsid, rkey: RecordKey, of: Subject, joined: Joined },
    /// The labels of a subject.
    Labels { of: Subject },
}

/// The rows of a join, with their own additions, and their form in the answer.
#[derive(Clone, Debug)]
pub(super) struct Joined {
    pub(super) additions: Vec<Addition>,
    pub(super) output: Template,
}

/// The part of a row that an addition is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Subject {
    Uri,
    Did,
    Field(Path),
}

/// The form of an answer or of a part of it.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Template {
    /// JSON text.
    Constant(String),
    Object {
        /// Names as JSON text, with quotes.
        fields: Vec<(String, Self)>,
        /// Whether it is the form of each record of a tree: `@children` is one of its fields.
        is_node: bool,
    },
    Array(Vec<Self>),
    /// An array with an element for each row of the page.
    Rows(Box<Self>),
    Insert(Insert),
}

/// A value that is inserted.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Insert {
    Uri,
    Cid,
    Did,
    Rkey,
    IndexedAt,
    /// The handle of a profile.
    Handle,
    /// The text of the record.
    Record,
    /// A field of the record.
    Field(Path),
    /// The URL of a blob of the record.
    Blob(Path),
    /// The cursor of the next page.
    Cursor,
    /// The cursor of the page before.
    PreviousCursor,
    /// The number of records of a group.
    Count,
    /// The addition at this position.
    Addition(usize),
    /// The additions of a group, with their names as JSON text.
    Group(Vec<(String, usize)>),
    /// The records below this one in a tree.
    Children,
}

impl Group {
    /// The group of the records of a query.
    ///
    /// # Errors
    /// When its keys or its order are invalid.
    pub(super) fn of(&self, query: Query, limit: Option<i64>) -> Result<group::Group, GroupError> {
        let order = self.order.iter().map(|(name, direction)| (name.as_str(), *direction));
        group::Group::new(query, self.by.clone(), order, limit)
    }

    /// Whether its rows have this part.
    pub(super) fn has(&self, subject: &Subject) -> bool {
        self.by.iter().any(|key| match (&key.value, subject) {
            (GroupValue::Did, Subject::Did) => true,
            (GroupValue::Field(path) | GroupValue::Time(path, _), Subject::Field(of)) => path == of,
            _ => false,
        })
    }

    pub(super) fn has_time(&self) -> bool {
        self.by.iter().any(|key| matches!(key.value, GroupValue::IndexedAt(_)))
    }
}

impl Kind {
    /// The part of a row that it is about.
    pub(super) fn subject(&self) -> Subject {
        match self {
            Self::Follow { path, .. } => Subject::Field(path.clone()),
            Self::List { to, .. } | Self::Count { to, .. } | Self::Mine { to, .. } => to.clone(),
            Self::Profile { of, .. } | Self::Record { of, .. } | Self::Labels { of } => of.clone(),
        }
    }

    /// The rows that it joins.
    pub(super) fn joined(&self) -> Option<&Joined> {
        match self {
            Self::Follow { joined, .. }
            | Self::List { joined, .. }
            | Self::Profile { joined, .. }
            | Self::Record { joined, .. } => Some(joined),
            Self::Count { .. } | Self::Mine { .. } | Self::Labels { .. } => None,
        }
    }
}
