//! The rules about users of a space (spaces.md §4, spaces-delta.md §4), as functions of what the caller has looked up. A call
//! must pass the rules about its app too ([`super::app_gate`]).

use std::fmt;

use crate::atproto::Did;

/// The rule about readers, or about writers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Everyone.
    Public,
    /// Members with the right to it.
    MemberList,
    /// Everyone whom this app admits.
    ManagingApp(ServiceRef),
}

/// A service that a DID document names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ServiceRef {
    pub did: Did,
    /// Its entry in the DID document, without `#`; `None` for the PDS.
    pub fragment: Option<String>,
}

impl fmt::Display for ServiceRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.did)?;
        self.fragment.iter().try_for_each(|fragment| write!(f, "#{fragment}"))
    }
}

/// The records of a space that a user may read. A later one includes the ones before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Readable {
    Nothing,
    /// Only the user's own.
    Own,
    Everything,
}

impl Readable {
    /// The word for it in rows and in answers of the admin API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Own => "own",
            Self::Everything => "everything",
        }
    }
}

/// The rights of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberAccess {
    pub reads: Readable,
    pub writes: bool,
}

impl MemberAccess {
    /// The rights of the creator of a space.
    pub const CREATOR: Self = Self { reads: Readable::Everything, writes: true };

    /// The rights of a member's flags. `read_self` limits reading to the member's own records.
    pub fn of_flags(read: bool, write: bool, read_self: bool) -> Self {
        let reads = match (read, read_self) {
            (false, _) => Readable::Nothing,
            (true, true) => Readable::Own,
            (true, false) => Readable::Everything,
        };
        Self { reads, writes: write }
    }

    /// The rights of the words of an older generation: `read`, `read_self`, `write` (with reading), `none`.
    pub fn of_word(word: &str) -> Option<Self> {
        match word {
            "none" => Some(Self::of_flags(false, false, false)),
            "read" => Some(Self::of_flags(true, false, false)),
            "read_self" => Some(Self::of_flags(true, false, true)),
            "write" => Some(Self::of_flags(true, true, false)),
            _ => None,
        }
    }

    /// The word of the older generation that comes closest.
    pub fn word(self) -> &'static str {
        match (self.reads, self.writes) {
            (_, true) => "write",
            (Readable::Everything, false) => "read",
            (Readable::Own, false) => "read_self",
            (Readable::Nothing, false) => "none",
        }
    }

    /// The rights through two memberships, such as a direct and a delegated one. A membership that reads nothing does not
    /// lift the other's limit to own records.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self { reads: self.reads.max(other.reads), writes: self.writes || other.writes }
    }
}

/// Whether a user is admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    Allowed,
    Denied,
    /// The managing app decides; without its answer the user is denied.
    AskManagingApp,
}

/// The records that a user with a session may read; `None` when the managing app decides. `member`: the user's rights, all
/// memberships united.
pub fn readable(policy: &Policy, member: Option<MemberAccess>) -> Option<Readable> {
    match policy {
        Policy::Public => Some(Readable::Everything),
        Policy::MemberList => Some(member.map_or(Readable::Nothing, |member| member.reads)),
        Policy::ManagingApp(_) => None,
    }
}

/// Whether a user receives a delegation token and a credential. A credential reads every record, so a member who may read
/// only the own ones receives none.
pub fn credential(policy: &Policy, member: Option<MemberAccess>) -> Decision {
    match readable(policy, member) {
        Some(Readable::Everything) => Decision::Allowed,
        Some(Readable::Own | Readable::Nothing) => Decision::Denied,
        None => Decision::AskManagingApp,
    }
}

/// Whether a user is a writer of the space: writers are listed, and notices of their writes are forwarded. The policy does
/// not decide about writes to the user's own repo at another host.
pub fn writer(policy: &Policy, member: Option<MemberAccess>) -> Decision {
    match policy {
        Policy::Public => Decision::Allowed,
        Policy::MemberList if member.is_some_and(|member| member.writes) => Decision::Allowed,
        Policy::MemberList => Decision::Denied,
        Policy::ManagingApp(_) => Decision::AskManagingApp,
    }
}

/// A user's relation to a space, for the calls that change it or describe it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Relation {
    pub is_creator: bool,
    pub is_super_user: bool,
    pub is_member: bool,
}

impl Relation {
    /// Whether the user may change the space, its members and its invites.
    pub fn administers(self) -> bool {
        self.is_creator || self.is_super_user
    }

    /// Whether the user may learn that the space exists, and its members. `is_public`: its membership is.
    pub fn sees(self, is_public: bool) -> bool {
        is_public || self.is_member || self.administers()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn app_policy() -> Policy {
        Policy::ManagingApp("did:web:app.example#spaces".parse().unwrap())
    }

    #[test]
    fn the_table_of_policies_and_members() {
        use Decision::{Allowed, AskManagingApp, Denied};
        use Readable::{Everything, Nothing, Own};
        let member = |read, write, read_self| Some(MemberAccess::of_flags(read, write, read_self));
        // The member; then with a member list: readable, credential, writer.
        for (member, reads, gets_credential, writes) in [
            (None, Nothing, Denied, Denied),
            (member(false, false, false), Nothing, Denied, Denied),
            (member(false, false, true), Nothing, Denied, Denied),
            (member(true, false, false), Everything, Allowed, Denied),
            (member(true, false, true), Own, Denied, Denied),
            (member(false, true, false), Nothing, Denied, Allowed),
            (member(false, true, true), Nothing, Denied, Allowed),
            (member(true, true, false), Everything, Allowed, Allowed),
            (member(true, true, true), Own, Denied, Allowed),
        ] {
            let of = |policy: &Policy| {
                (readable(policy, member), credential(policy, member), writer(policy, member))
            };
            assert_eq!(of(&Policy::MemberList), (Some(reads), gets_credential, writes), "{member:?}");
            assert_eq!(of(&Policy::Public), (Some(Everything), Allowed, Allowed), "{member:?}");
            let asked = (None, AskManagingApp, AskManagingApp);
            assert_eq!(of(&app_policy()), asked, "{member:?}");
        }
        assert_eq!(credential(&Policy::MemberList, Some(MemberAccess::CREATOR)), Allowed);
    }

    #[test]
    fn memberships_are_united() {
        let all = [Readable::Nothing, Readable::Own, Readable::Everything]
            .into_iter()
            .flat_map(|reads| [false, true].map(|writes| MemberAccess { reads, writes }));
        for a in all.clone() {
            assert_eq!(a.union(a), a);
            for b in all.clone() {
                let both = a.union(b);
                assert_eq!(both, b.union(a));
                assert!(both.reads >= a.reads && (both.reads == a.reads || both.reads == b.reads));
                assert_eq!(both.writes, a.writes | b.writes);
            }
        }
        let own = MemberAccess::of_flags(true, false, true);
        let writer = MemberAccess::of_flags(false, true, false);
        assert_eq!(own.union(writer), MemberAccess { reads: Readable::Own, writes: true });
    }

    #[test]
    fn words_become_rights() {
        let rights = |word| MemberAccess::of_word(word).map(|member| (member.reads, member.writes));
        assert_eq!(rights("none"), Some((Readable::Nothing, false)));
        assert_eq!(rights("read"), Some((Readable::Everything, false)));
        assert_eq!(rights("read_self"), Some((Readable::Own, false)));
        assert_eq!(rights("write"), Some((Readable::Everything, true)));
        assert_eq!(rights("admin"), None);
    }

    #[test]
    fn relations_to_a_space() {
        let none = Relation::default();
        for (relation, administers, sees) in [
            (none, false, false),
            (Relation { is_member: true, ..none }, false, true),
            (Relation { is_creator: true, ..none }, true, true),
            (Relation { is_super_user: true, ..none }, true, true),
        ] {
            assert_eq!((relation.administers(), relation.sees(false)), (administers, sees), "{relation:?}");
            assert!(relation.sees(true));
        }
    }
}
