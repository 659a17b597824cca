//! The members of a space.

use std::str::FromStr;

use super::{SpaceError, Spaces, Viewer};
use belvedere_protocol::atproto::Did;
use belvedere_protocol::atproto::scope::SpaceManage;
use belvedere_protocol::spaces::SpaceUri;
use belvedere_protocol::spaces::access::MemberAccess;
use belvedere_storage::store::spaces::delegation;
use belvedere_storage::store::spaces::members::{self, IfMember, Member, Put};

/// A member as a call names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NamedMember {
    Account(Did),
    /// All members of another space.
    MembersOf(SpaceUri),
}

impl FromStr for NamedMember {
    type Err = SpaceError;

    fn from_str(text: &str) -> Result<Self, SpaceError> {
        if text.starts_with("at://") {
            return text.parse().map(Self::MembersOf).map_err(SpaceError::invalid);
        }
        let did = Did::try_from(text).map(Self::Account);
        did.map_err(|_| SpaceError::invalid("it is neither a DID nor the address of a space"))
    }
}

impl Spaces {
    /// Adds a member, or with [`IfMember::Replace`] replaces its rights. An account that may no longer read everything loses its
    /// credentials.
    ///
    /// # Errors
    /// [`SpaceError::NotAdministrator`]; 409 for a member, with [`IfMember::Keep`]; 400 for the creator, whose rights stay.
    pub async fn put_member(
        &self,
        uri: &SpaceUri,
        viewer: &Viewer,
        member: &NamedMember,
        access: MemberAccess,
        if_member: IfMember,
    ) -> Result<(), SpaceError> {
        let account = viewer.account()?;
        let space = self.administered(uri, viewer, SpaceManage::Update).await?;
        let included = match member {
            NamedMember::Account(did) if *did == space.creator => {
                return Err(SpaceError::invalid("the creator of a space always has all rights in it"));
            }
            NamedMember::Account(_) => None,
            // Its members become known to those of this space.
            NamedMember::MembersOf(included) if included == uri => {
                return Err(SpaceError::invalid("a space can't include its own members"));
            }
            NamedMember::MembersOf(included) => Some(self.visible(included, viewer).await?.id),
        };
        let stored = match (member, included) {
            (NamedMember::MembersOf(included), Some(id)) => Member::MembersOf(included, id),
            (NamedMember::Account(did), _) => Member::Account(did),
            (NamedMember::MembersOf(_), None) => return Err(SpaceError::NoSpace),
        };
        let core = self.core();
        let (db, now) = (&core.db, core.clock.now());
        match members::put(db, space.id, stored, access, &account.did, if_member, now).await? {
            Put::Stored { revoked } => {
                self.announce_revoked(revoked);
                Ok(())
            }
            Put::IsMember => Err(SpaceError::Conflict("it is a member already")),
            Put::NoSpace => Err(SpaceError::NoSpace),
            Put::TooManyDelegations => {
                Err(SpaceError::invalid("the space includes the members of as many others as it may"))
            }
        }
    }

    /// Removes a member, whose credentials end with that.
    ///
    /// # Errors
    /// [`SpaceError::NotAdministrator`]; 404 when it is none.
    pub async fn remove_member(
        &self,
        uri: &SpaceUri,
        viewer: &Viewer,
        member: &NamedMember,
    ) -> Result<(), SpaceError> {
        let space = self.administered(uri, viewer, SpaceManage::Update).await?;
        let name = match member {
            NamedMember::Account(did) if *did == space.creator => {
                return Err(SpaceError::invalid("the creator of a space stays a member of it"));
            }
            NamedMember::Account(did) => did.to_string(),
            NamedMember::MembersOf(uri) => uri.to_string(),
        };
        let core = self.core();
        let removed = members::remove(&core.db, space.id, &name, core.clock.now()).await?;
        self.announce_revoked(removed.ok_or(SpaceError::NotFound("it is not a member"))?);
        Ok(())
    }

    /// The rights of an account through all its memberships; `None` when it is no member.
    ///
    /// # Errors
    /// [`SpaceError::NoSpace`] for someone who may not know that the space exists.
    pub async fn rights(
        &self,
        uri: &SpaceUri,
        viewer: &Viewer,
        did: &Did,
    ) -> Result<Option<MemberAccess>, SpaceError> {
        let space = self.visible(uri, viewer).await?;
        Ok(delegation::access(&self.core().db, space.id, did).await?)
    }

    /// A page of all accounts that are members, also through other spaces, sorted by DID. `after`: the last DID of the page
    /// before.
    ///
    /// # Errors
    /// [`SpaceError::NoSpace`] for someone who may not know that the space exists.
    pub async fn members(
        &self,
        uri: &SpaceUri,
        viewer: &Viewer,
        after: &str,
        limit: u32,
    ) -> Result<Vec<(Did, MemberAccess)>, SpaceError> {
        let space = self.visible(uri, viewer).await?;
        Ok(delegation::page(&self.core().db, space.id, after, limit).await?)
    }
}
