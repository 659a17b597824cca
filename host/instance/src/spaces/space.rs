//! Creates, shows, changes and deletes spaces.

use super::{SpaceError, Spaces, Viewer};
use belvedere_protocol::atproto::scope::SpaceManage;
use belvedere_protocol::atproto::{Did, Nsid, RecordKey};
use belvedere_protocol::spaces::SpaceUri;
use belvedere_protocol::spaces::app_gate::RecordCall;
use belvedere_storage::store::spaces::settings::{self, Settings, SettingsChange};
use belvedere_storage::store::spaces::space::{self, SpaceRow};
use belvedere_storage::store::spaces::{SpaceId, deletion};

/// Spaces that one account may create here.
const MAX_SPACES: u64 = 1_000;

/// A space to create.
#[derive(Clone, Debug)]
pub struct NewSpace {
    pub kind: Nsid,
    /// `None` for a TID.
    pub skey: Option<RecordKey>,
    pub settings: Settings,
}

/// The spaces that a list returns.
#[derive(Clone, Debug, Default)]
pub struct SpaceQuery {
    pub kind: Option<Nsid>,
    pub authority: Option<Did>,
    /// The last space of the page before.
    pub after: Option<SpaceUri>,
    pub limit: u32,
}

impl Spaces {
    /// Creates a space, which its creator administers. Its authority is the instance, or the creator if the instance has no
    /// identity that could sign for it.
    ///
    /// # Errors
    /// [`SpaceError::SpaceExists`]; 403 when the app may not create it, or the account has created too many.
    pub async fn create(&self, viewer: &Viewer, new: NewSpace) -> Result<SpaceUri, SpaceError> {
        let creator = viewer.account()?;
        let (db, now) = (&self.core().db, self.core().clock.now());
        let did = self.0.identity.signing_did().unwrap_or_else(|| creator.did.clone());
        let skey = match new.skey {
            Some(skey) => skey,
            None => self.new_key(0)?,
        };
        let uri = SpaceUri { did, kind: new.kind, skey };
        creator.check_manages(SpaceManage::Create, &uri)?;
        if space::count_of_creator(db, &creator.did).await? >= MAX_SPACES {
            return Err(SpaceError::NotAuthorized("you have created as many spaces as one account may"));
        }
        let created = space::create(db, &uri, &creator.did, &new.settings, now).await?;
        created.map(|_| uri).ok_or(SpaceError::SpaceExists)
    }

    /// A space that this instance hosts.
    ///
    /// # Errors
    /// [`SpaceError::NoSpace`] for someone who may not know that it exists.
    pub async fn get(&self, uri: &SpaceUri, viewer: &Viewer) -> Result<SpaceRow, SpaceError> {
        self.visible(uri, viewer).await
    }

    /// A space, for those who administer it.
    ///
    /// # Errors
    /// [`SpaceError::NotAdministrator`]
    pub async fn get_administered(&self, uri: &SpaceUri, viewer: &Viewer) -> Result<SpaceRow, SpaceError> {
        self.administered(uri, viewer, SpaceManage::Update).await
    }

    /// Changes the settings of a space. Returns it as it is then. All credentials end when it has another read policy
    /// or another list of apps: users who may still read get new ones.
    ///
    /// # Errors
    /// [`SpaceError::NotAdministrator`]
    pub async fn update(
        &self,
        uri: &SpaceUri,
        viewer: &Viewer,
        change: &SettingsChange,
    ) -> Result<SpaceRow, SpaceError> {
        let space = self.administered(uri, viewer, SpaceManage::Update).await?;
        let core = self.core();
        let revoked = settings::update(&core.db, space.id, change, core.clock.now()).await?;
        self.announce_revoked(revoked.ok_or(SpaceError::NoSpace)?);
        self.find(uri).await
    }

    /// Deletes a space. The rest of its rows is removed in the background.
    ///
    /// # Errors
    /// [`SpaceError::NotAdministrator`]
    pub async fn delete(&self, uri: &SpaceUri, viewer: &Viewer) -> Result<(), SpaceError> {
        let space = self.administered(uri, viewer, SpaceManage::Delete).await?;
        let core = self.core();
        let revoked = deletion::delete(&core.db, space.id, core.clock.now()).await?;
        self.announce_revoked(revoked.unwrap_or_default());
        self.0.queued.notify_one();
        let (db, now) = (core.db.clone(), core.clock.now());
        core.tasks.spawn(async move {
            if let Err(error) = deletion::purge(&db, now).await {
                tracing::warn!(%error, "rows of a deleted space are left; the sweep removes them");
            }
        });
        Ok(())
    }

    /// The number of the space with which a page ended.
    ///
    /// # Errors
    /// 400 when there is no such space.
    pub(super) async fn position(&self, after: Option<&SpaceUri>) -> Result<Option<SpaceId>, SpaceError> {
        let Some(uri) = after else { return Ok(None) };
        let found = space::get(&self.core().db, uri).await?;
        found.map(|space| Some(space.id)).ok_or(SpaceError::invalid("cursor is malformed"))
    }

    /// A page of the caller's own spaces: those that it created, is a member of, or has a repo in.
    ///
    /// # Errors
    /// [`SpaceError::Anonymous`]
    pub async fn list(&self, viewer: &Viewer, query: &SpaceQuery) -> Result<Vec<SpaceRow>, SpaceError> {
        let account = viewer.account()?;
        let kind = query.kind.as_ref();
        if !account.app_may_list(kind.map(Nsid::as_str)) && kind.is_none() && query.authority.is_none() {
            let scope = "space:* with authority=*, or a filter by spaceType or did".to_owned();
            return Err(SpaceError::Scope(scope));
        }
        let db = &self.core().db;
        let mut after = self.position(query.after.as_ref()).await?;
        let mut found = Vec::new();
        loop {
            let page = space::of_account(db, &account.did, after, query.limit).await?;
            let is_last = page.len() < query.limit as usize;
            after = page.last().map(|space| space.id);
            found.extend(page.into_iter().filter(|space| {
                let uri = &space.uri;
                kind.is_none_or(|kind| *kind == uri.kind)
                    && query.authority.as_ref().is_none_or(|did| *did == uri.did)
                    && account.app_may(RecordCall::ReadOwn, uri, None, &self.declared(&uri.kind))
            }));
            if is_last || found.len() >= query.limit as usize {
                found.truncate(query.limit as usize);
                return Ok(found);
            }
        }
    }
}
