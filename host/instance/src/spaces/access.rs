//! Decides what a call may see and change. Each function here is one of the auth codes in spaces.md §5.

use std::sync::Arc;

use futures_util::FutureExt as _;
use tokio::sync::OnceCell;

use super::managing_app::Right;
use super::repos::check_is_here;
use super::{Account, Presented, SpaceError, Spaces, Viewer};
use crate::xrpc::Caller;
use belvedere_protocol::atproto::scope::SpaceManage;
use belvedere_protocol::atproto::{Did, Nsid};
use belvedere_protocol::spaces::SpaceUri;
use belvedere_protocol::spaces::access::{self, Decision, MemberAccess, Policy, Readable, Relation};
use belvedere_protocol::spaces::app_gate::RecordCall;
use belvedere_storage::store::index::AccountStatus;
use belvedere_storage::store::spaces::records::Authors;
use belvedere_storage::store::spaces::space::{self, SpaceRow};
use belvedere_storage::store::spaces::{delegation, repos};
use belvedere_storage::store::{Db, StoreError, backfill};

/// A space, and the records in it that a viewer may read.
#[derive(Debug)]
pub(super) struct Readers {
    pub space: SpaceRow,
    /// The user who may read only the own records; `None` for a viewer who may read all.
    pub only: Option<Did>,
}

impl Readers {
    /// The authors whose records an answer may have. `named`: the author that the call names.
    ///
    /// # Errors
    /// For another author's repo the same as for one that does not exist.
    pub(super) fn authors<'a>(&'a self, named: Option<&'a Did>) -> Result<Authors<'a>, SpaceError> {
        match (named, &self.only) {
            (Some(named), Some(only)) if named != only => Err(SpaceError::NoRepo),
            (Some(author), _) | (None, Some(author)) => Ok(Authors::One(author)),
            (None, None) => Ok(Authors::All),
        }
    }
}

/// The rights of a user through all memberships in a space. They are walked when they are needed, and once.
#[derive(Debug)]
pub(super) struct Membership<'a> {
    space: &'a SpaceRow,
    did: &'a Did,
    walked: OnceCell<Option<MemberAccess>>,
}

impl<'a> Membership<'a> {
    pub(super) fn new(space: &'a SpaceRow, did: &'a Did) -> Self {
        Self { space, did, walked: OnceCell::new() }
    }

    /// `None` for a user who is no member.
    async fn access(&self, db: &Db) -> Result<Option<MemberAccess>, StoreError> {
        let walk = || delegation::access(db, self.space.id, self.did);
        self.walked.get_or_try_init(walk).await.copied()
    }
}

impl Spaces {
    /// The space at an address, unless it is deleted.
    ///
    /// # Errors
    /// [`SpaceError::NoSpace`]
    pub(super) async fn find(&self, uri: &SpaceUri) -> Result<SpaceRow, SpaceError> {
        let found = space::get(&self.core().db, uri).await?;
        found.filter(|space| space.deleted_at.is_none()).ok_or(SpaceError::NoSpace)
    }

    /// A hosted space, for a viewer who may know that it exists, and who its members and writers are.
    ///
    /// # Errors
    /// [`SpaceError::NoSpace`] for everyone else; [`SpaceError::Anonymous`] for a call without a user.
    pub(super) async fn visible(&self, uri: &SpaceUri, viewer: &Viewer) -> Result<SpaceRow, SpaceError> {
        Ok(self.seen(uri, viewer).await?.0)
    }

    /// Like [`Self::visible`], with the user's relation to the space; `None` for a call without a user.
    async fn seen(
        &self,
        uri: &SpaceUri,
        viewer: &Viewer,
    ) -> Result<(SpaceRow, Option<Relation>), SpaceError> {
        match viewer {
            Viewer::Anonymous => {
                let found = self.find(uri).await;
                let space = found.map_err(|error| match error {
                    SpaceError::NoSpace => SpaceError::Anonymous,
                    error => error,
                })?;
                let is_public = space.is_hosted && space.settings.config.membership_is_public;
                if is_public { Ok((space, None)) } else { Err(SpaceError::Anonymous) }
            }
            Viewer::Credential(presented) => Ok((self.opened(presented, uri, None).await?, None)),
            Viewer::Account(account) => {
                let space = self.find(uri).await?;
                if !space.is_hosted {
                    return Err(SpaceError::NoSpace);
                }
                let relation = self.relation(&Membership::new(&space, &account.did), account).await?;
                let sees = relation.sees(space.settings.config.membership_is_public);
                if sees { Ok((space, Some(relation))) } else { Err(SpaceError::NoSpace) }
            }
        }
    }

    /// The space of a call with a credential. `repo`: the one that the call names.
    async fn opened(
        &self,
        presented: &Presented,
        uri: &SpaceUri,
        repo: Option<&Did>,
    ) -> Result<SpaceRow, SpaceError> {
        presented.check_space(uri)?;
        let found = space::with_credential(&self.core().db, uri, &presented.jti).await?;
        let (space, opening) = found.ok_or(SpaceError::NoSpace)?;
        presented.check_opens(opening, repo)?;
        Ok(space)
    }

    /// Checks that this server answers a call about a repo with a credential: not with the copies that it has for its own users.
    ///
    /// # Errors
    /// [`SpaceError::NoRepo`], as if there were none.
    async fn check_answers(&self, space: &SpaceRow, repo: Option<&Did>) -> Result<(), SpaceError> {
        let Some(repo) = repo.filter(|_| !space.is_hosted) else { return Ok(()) };
        check_is_here(&repos::state(&self.core().db, space.id, repo).await?.ok_or(SpaceError::NoRepo)?)
    }

    /// A hosted space, for a member or the holder of a credential.
    ///
    /// # Errors
    /// As [`Self::visible`], also when the membership is public.
    pub(super) async fn joined(&self, uri: &SpaceUri, viewer: &Viewer) -> Result<SpaceRow, SpaceError> {
        let (space, relation) = self.seen(uri, viewer).await?;
        match (viewer, relation) {
            (Viewer::Anonymous, _) => Err(SpaceError::Anonymous),
            (_, Some(relation)) if !relation.sees(false) => {
                Err(SpaceError::NotAuthorized("you are not a member of this space"))
            }
            _ => Ok(space),
        }
    }

    /// A hosted space, for a user who may change it.
    ///
    /// # Errors
    /// [`SpaceError::NotAdministrator`] for another user who may know of it.
    pub(super) async fn administered(
        &self,
        uri: &SpaceUri,
        viewer: &Viewer,
        action: SpaceManage,
    ) -> Result<SpaceRow, SpaceError> {
        let account = viewer.account()?;
        let space = self.visible(uri, viewer).await?;
        if space.creator != account.did && !account.is_super_user {
            return Err(SpaceError::NotAdministrator);
        }
        account.check_manages(action, uri)?;
        Ok(space)
    }

    /// A space with the records that a viewer may read. `repo`: the one that the call names. `collection`: `None` for a call
    /// about all.
    ///
    /// # Errors
    /// [`SpaceError::NoSpace`] for someone who may not know that it exists.
    pub(super) async fn readable(
        &self,
        uri: &SpaceUri,
        viewer: &Viewer,
        repo: Option<&Did>,
        collection: Option<&Nsid>,
    ) -> Result<Readers, SpaceError> {
        let readers = match viewer {
            Viewer::Anonymous => return Err(SpaceError::Anonymous),
            Viewer::Credential(presented) => {
                let space = self.opened(presented, uri, repo).await?;
                self.check_answers(&space, repo).await?;
                Readers { space, only: None }
            }
            Viewer::Account(account) => self.readable_by(uri, account, repo, collection).await?,
        };
        if let Some(repo) = repo {
            let status = backfill::account_status(&self.core().db, repo).await?;
            match status.filter(|status| *status != AccountStatus::Active) {
                Some(hidden) if readers.authors(Some(repo)).is_ok() => {
                    return Err(SpaceError::Hidden(hidden));
                }
                _ => {}
            }
        }
        Ok(readers)
    }

    /// Whether the caller of a script may list records of a space: those of all authors, or the own ones.
    ///
    /// # Errors
    /// When this can't be known: the store can't be read, the host of the space can't be asked, or the copy is not complete.
    pub async fn is_readable(&self, uri: &SpaceUri, caller: &Caller) -> Result<bool, SpaceError> {
        let found = async { self.readable(uri, &self.viewer_of(caller).await?, None, None).await };
        match found.await {
            Ok(_) => Ok(true),
            Err(error @ (SpaceError::Store(_) | SpaceError::HostFails(_) | SpaceError::Copying)) => {
                Err(error)
            }
            Err(_) => Ok(false),
        }
    }

    async fn readable_by(
        &self,
        uri: &SpaceUri,
        account: &Account,
        repo: Option<&Did>,
        collection: Option<&Nsid>,
    ) -> Result<Readers, SpaceError> {
        let space = self.find(uri).await?;
        let membership = Membership::new(&space, &account.did);
        let is_of_own = !space.is_hosted && repo == Some(&account.did);
        let readable = if is_of_own { Readable::Own } else { self.records_of(&membership).await? };
        let only = match readable {
            Readable::Everything => None,
            Readable::Own => Some(account.did.clone()),
            Readable::Nothing => {
                let why = "you may not read the records of this space";
                return Err(self.refused(&membership, account, why).await?);
            }
        };
        let is_own = only.is_some() || repo == Some(&account.did);
        let call = if is_own { RecordCall::ReadOwn } else { RecordCall::ReadOthers };
        account.check_app(call, uri, collection, &self.declared(&uri.kind))?;
        Ok(Readers { space, only })
    }

    /// The records that a user may read. Only the host of a space knows its members, and gives them credentials.
    async fn records_of(&self, membership: &Membership<'_>) -> Result<Readable, SpaceError> {
        let Membership { space, did, .. } = membership;
        if !space.is_hosted {
            // Boxed: calls of other servers are in it, and every read would have their state.
            return self.readable_elsewhere(space, did).boxed().await;
        }
        let policy = &space.settings.read_policy;
        if let Some(readable) = access::readable(policy, self.listed(membership, policy).await?) {
            return Ok(readable);
        }
        let admits = self.managing_apps().admits(space, policy, did, Right::Read, None).await;
        Ok(if admits { Readable::Everything } else { Readable::Nothing })
    }

    /// Whether a user is a writer of a hosted space.
    pub(super) async fn is_writer(&self, membership: &Membership<'_>) -> Result<bool, SpaceError> {
        let policy = &membership.space.settings.write_policy;
        self.admits(membership, policy, access::writer, (Right::Write, None)).await
    }

    /// Whether a user receives a credential for a hosted space. `client`: the attested client id of the app.
    pub(super) async fn gets_credential(
        &self,
        membership: &Membership<'_>,
        client: Option<&str>,
    ) -> Result<bool, SpaceError> {
        let policy = &membership.space.settings.read_policy;
        self.admits(membership, policy, access::credential, (Right::Read, client)).await
    }

    async fn admits(
        &self,
        membership: &Membership<'_>,
        policy: &Policy,
        rule: fn(&Policy, Option<MemberAccess>) -> Decision,
        (right, client): (Right, Option<&str>),
    ) -> Result<bool, SpaceError> {
        let Membership { space, did, .. } = membership;
        Ok(match rule(policy, self.listed(membership, policy).await?) {
            Decision::Allowed => true,
            Decision::Denied => false,
            Decision::AskManagingApp => self.managing_apps().admits(space, policy, did, right, client).await,
        })
    }

    /// The rights of a user, if the policy asks for them.
    async fn listed(
        &self,
        membership: &Membership<'_>,
        policy: &Policy,
    ) -> Result<Option<MemberAccess>, SpaceError> {
        match policy {
            Policy::MemberList => Ok(membership.access(&self.core().db).await?),
            Policy::Public | Policy::ManagingApp(_) => Ok(None),
        }
    }

    /// The answer to a user who may not do something in a hosted space: who may not know that it exists, learns nothing of it.
    pub(super) async fn refused(
        &self,
        membership: &Membership<'_>,
        account: &Account,
        why: &'static str,
    ) -> Result<SpaceError, SpaceError> {
        let relation = self.relation(membership, account).await?;
        let sees = relation.sees(membership.space.settings.config.membership_is_public);
        Ok(if sees { SpaceError::NotAuthorized(why) } else { SpaceError::NoSpace })
    }

    async fn relation(&self, membership: &Membership<'_>, account: &Account) -> Result<Relation, SpaceError> {
        let is_creator = membership.space.creator == account.did;
        // The others need no look-up.
        let is_member =
            !is_creator && !account.is_super_user && membership.access(&self.core().db).await?.is_some();
        Ok(Relation { is_creator, is_super_user: account.is_super_user, is_member })
    }

    /// The collections that the lexicon of a type of spaces declares; none when this server has no lexicon of it.
    pub(super) fn declared(&self, kind: &Nsid) -> Arc<[Nsid]> {
        self.core().registry.snapshot().declared_collections(kind.as_str()).unwrap_or_default()
    }
}
