//! Follows spaces of other hosts for users, who may read here what their credentials open there.

use super::super::{SpaceError, Spaces, Viewer};
use super::NoCredential;
use belvedere_protocol::atproto::Did;
use belvedere_protocol::spaces::SpaceUri;
use belvedere_protocol::spaces::access::Readable;
use belvedere_protocol::spaces::app_gate::RecordCall;
use belvedere_storage::store::spaces::space::{self, SpaceRow};
use belvedere_storage::store::spaces::{credentials, follows};

/// Spaces that are followed for one account.
const MAX_FOLLOWED: u64 = 100;

impl Spaces {
    /// Follows a space of another host for the caller, who must be able to get a credential for it. Nothing changes when it is
    /// followed for the caller already.
    ///
    /// # Errors
    /// [`SpaceError::HostRefuses`] and [`SpaceError::HostFails`] without a credential; 400 for a space that this server hosts.
    pub async fn follow(&self, uri: &SpaceUri, viewer: &Viewer) -> Result<(), SpaceError> {
        let account = viewer.account()?;
        account.check_app(RecordCall::ReadOthers, uri, None, &self.declared(&uri.kind))?;
        let (db, now) = (&self.core().db, self.core().clock.now());
        let known = space::get(db, uri).await?;
        if self.0.identity.did() == uri.did || known.as_ref().is_some_and(|space| space.is_hosted) {
            return Err(SpaceError::invalid(
                "a space of this server needs no follower: call its methods here",
            ));
        }
        if let Some(space) = &known
            && follows::of(db, space.id, &account.did).await?.is_some()
        {
            return Ok(());
        }
        if follows::count_of(db, &account.did).await? >= MAX_FOLLOWED {
            return Err(SpaceError::Conflict("you follow as many spaces as one account may"));
        }
        self.credential(uri, Some(&account.did)).await.map_err(SpaceError::from)?;
        let space = space::of_other_host(db, uri, now).await?.ok_or(SpaceError::NoSpace)?;
        if !follows::begin(db, space, &account.did).await? {
            return Err(SpaceError::NoSpace);
        }
        self.0.changed.notify_one();
        Ok(())
    }

    /// Ends to follow a space for the caller. Returns whether it was followed. The copies go with the last follower.
    ///
    /// # Errors
    /// [`SpaceError::Anonymous`]
    pub async fn unfollow(&self, uri: &SpaceUri, viewer: &Viewer) -> Result<bool, SpaceError> {
        let account = viewer.account()?;
        let db = &self.core().db;
        let Some(space) = space::get(db, uri).await? else { return Ok(false) };
        Ok(follows::end(db, space.id, &account.did).await?)
    }

    /// The records of a space of another host that a user may read here: all, as long as its host gives the user credentials.
    ///
    /// # Errors
    /// [`SpaceError::HostFails`] when the host can't be asked; [`SpaceError::HostRefuses`] for a user without a session;
    /// [`SpaceError::Copying`] before everything was copied once: a part would look like all.
    pub(in super::super) async fn readable_elsewhere(
        &self,
        space: &SpaceRow,
        did: &Did,
    ) -> Result<Readable, SpaceError> {
        let db = &self.core().db;
        let Some(follow) = follows::of(db, space.id, did).await? else { return Ok(Readable::Own) };
        let mut held = self.credential(&space.uri, Some(did)).await;
        if let Ok(revoked) = &held
            && credentials::is_revoked(db, space.id, &revoked.jti).await?
        {
            self.forget_credential(&space.uri, did).await;
            held = self.credential(&space.uri, Some(did)).await;
        }
        match held {
            Ok(_) if follow.is_complete => Ok(Readable::Everything),
            Ok(_) => Err(SpaceError::Copying),
            Err(NoCredential::Failed(why)) => Err(SpaceError::HostFails(why)),
            Err(NoCredential::Refused { .. }) => Ok(Readable::Own),
            Err(error @ NoCredential::NoSession) => Err(error.into()),
        }
    }
}

impl From<NoCredential> for SpaceError {
    fn from(error: NoCredential) -> Self {
        match error {
            NoCredential::Failed(why) => Self::HostFails(why),
            refused => Self::HostRefuses(refused.to_string()),
        }
    }
}
