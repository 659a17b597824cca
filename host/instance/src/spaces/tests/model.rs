//! The model: what each user may see and change, computed in the simplest way.

use std::collections::{BTreeMap, BTreeSet};

use belvedere_protocol::spaces::access::{MemberAccess, Readable};

/// Users, of whom some never become members.
pub const USERS: usize = 8;
pub const SPACES: usize = 5;

/// The answer to a user about a space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sight {
    /// Nothing: the answer is that of a space that does not exist.
    Hidden,
    /// The space, and none of its records.
    Space,
    /// The own records.
    Own,
    All,
}

#[derive(Debug, Default)]
pub struct Model {
    pub spaces: Vec<Space>,
    /// Users whose accounts are not active.
    pub inactive: BTreeSet<usize>,
}

#[derive(Debug)]
pub struct Space {
    pub creator: usize,
    pub reads_public: bool,
    pub writes_public: bool,
    pub members: BTreeMap<usize, MemberAccess>,
    /// Spaces whose members are included.
    pub includes: BTreeMap<usize, MemberAccess>,
    /// The content of each record, by author and key.
    pub records: BTreeMap<(usize, usize), u64>,
    /// Users who have written as writers.
    pub writers: BTreeSet<usize>,
    /// Users who have written anything.
    pub authors: BTreeSet<usize>,
}

impl Space {
    pub fn of(creator: usize) -> Self {
        Self {
            creator,
            reads_public: false,
            writes_public: false,
            members: BTreeMap::from([(creator, MemberAccess::CREATOR)]),
            includes: BTreeMap::new(),
            records: BTreeMap::new(),
            writers: BTreeSet::new(),
            authors: BTreeSet::new(),
        }
    }
}

impl Model {
    /// The rights of a user through all memberships; `None` when it has none.
    pub fn access(&self, space: usize, user: usize) -> Option<MemberAccess> {
        self.through(space, user, &mut vec![space])
    }

    fn through(&self, space: usize, user: usize, path: &mut Vec<usize>) -> Option<MemberAccess> {
        let mut found = self.spaces[space].members.get(&user).copied();
        for (&target, outer) in &self.spaces[space].includes {
            if path.contains(&target) {
                continue;
            }
            path.push(target);
            if let Some(inner) = self.through(target, user, path) {
                let rights = MemberAccess {
                    reads: outer.reads.min(inner.reads),
                    writes: outer.writes && inner.writes,
                };
                found = Some(found.map_or(rights, |found| found.union(rights)));
            }
            path.pop();
        }
        found
    }

    pub fn sight(&self, space: usize, user: usize) -> Sight {
        let access = self.access(space, user);
        let reads = match (self.spaces[space].reads_public, access) {
            (true, _) => Readable::Everything,
            (false, access) => access.map_or(Readable::Nothing, |access| access.reads),
        };
        match reads {
            Readable::Everything => Sight::All,
            Readable::Own => Sight::Own,
            Readable::Nothing if access.is_some() => Sight::Space,
            Readable::Nothing => Sight::Hidden,
        }
    }

    pub fn writes(&self, space: usize, user: usize) -> bool {
        self.spaces[space].writes_public || self.access(space, user).is_some_and(|access| access.writes)
    }

    /// Whether the user may learn that the space exists.
    pub fn sees(&self, space: usize, user: usize) -> bool {
        self.access(space, user).is_some()
    }

    /// The records of an author; `None`: of all whose accounts are active.
    pub fn records(&self, space: usize, author: Option<usize>) -> BTreeMap<(usize, usize), u64> {
        let is_shown = |of: usize| author.map_or(!self.inactive.contains(&of), |author| author == of);
        let records = self.spaces[space].records.iter();
        records.filter(|((of, _), _)| is_shown(*of)).map(|(place, content)| (*place, *content)).collect()
    }
}
