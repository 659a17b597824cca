//! Spaces as the operators of the instance see them: all of them, their members and services, and no records.
//!
//! The caller has checked the permission of the operator.

use super::{Account, SpaceError, Spaces, Viewer};
use belvedere_protocol::atproto::Did;
use belvedere_protocol::spaces::SpaceUri;
use belvedere_storage::store::spaces::counts::{self, SpaceCounts};
use belvedere_storage::store::spaces::members::{self, MemberRow};
use belvedere_storage::store::spaces::registrations::{self, RegistrationRow};
use belvedere_storage::store::spaces::space::{self, SpaceRow};

/// The spaces that a list of operators has.
#[derive(Clone, Debug)]
pub enum Selection {
    All,
    /// At most the one with this address.
    At(SpaceUri),
    /// Those whose authority or creator is this account.
    Of(Did),
    /// Those that this account has created, is a member of, or has a repo in.
    With(Did),
}

impl Viewer {
    /// An operator. Administers the hosted spaces as the super user does, and so reads no records.
    pub fn operator(did: Did) -> Self {
        Self::Account(Account { did, app: None, is_super_user: true })
    }
}

impl Spaces {
    /// A page of spaces, in the order of their creation. `after`: the last one of the page before.
    ///
    /// # Errors
    /// 400 when there is no space `after`.
    pub async fn selected(
        &self,
        selection: &Selection,
        after: Option<&SpaceUri>,
        limit: u32,
    ) -> Result<Vec<SpaceRow>, SpaceError> {
        let db = &self.core().db;
        let after = self.position(after).await?;
        Ok(match selection {
            Selection::All => space::page(db, None, after, limit).await?,
            Selection::Of(did) => space::page(db, Some(did), after, limit).await?,
            Selection::With(did) => space::of_account(db, did, after, limit).await?,
            Selection::At(uri) => match self.find(uri).await {
                Ok(space) => vec![space],
                Err(SpaceError::NoSpace) => Vec::new(),
                Err(error) => return Err(error),
            },
        })
    }

    /// A space, hosted here or not, and the numbers of its rows.
    ///
    /// # Errors
    /// [`SpaceError::NoSpace`]
    pub async fn overview(&self, uri: &SpaceUri) -> Result<(SpaceRow, SpaceCounts), SpaceError> {
        let (space, core) = (self.find(uri).await?, self.core());
        let counts = counts::of(&core.db, space.id, core.clock.now()).await?;
        Ok((space, counts))
    }

    /// A page of the list of members as it is stored: accounts, and spaces whose members are included. `after`: the last one of
    /// the page before.
    ///
    /// # Errors
    /// [`SpaceError::NoSpace`]
    pub async fn member_rows(
        &self,
        uri: &SpaceUri,
        after: &str,
        limit: u32,
    ) -> Result<Vec<MemberRow>, SpaceError> {
        let space = self.find(uri).await?;
        Ok(members::page(&self.core().db, space.id, after, limit).await?)
    }

    /// The services that receive notices of the writes in a space.
    ///
    /// # Errors
    /// [`SpaceError::NoSpace`]
    pub async fn registrations(&self, uri: &SpaceUri) -> Result<Vec<RegistrationRow>, SpaceError> {
        let (space, core) = (self.find(uri).await?, self.core());
        Ok(registrations::list(&core.db, space.id, core.clock.now()).await?)
    }
}
