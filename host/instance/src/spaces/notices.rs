//! Notices that other servers send: of writes to repos, of deleted spaces, and of revoked credentials (spaces.md §11).

use super::access::Membership;
use super::{Account, SpaceError, Spaces, Viewer};
use belvedere_base::clock::Timestamp;
use belvedere_protocol::atproto::{Did, Tid};
use belvedere_protocol::spaces::SpaceUri;
use belvedere_protocol::spaces::r10::token::host_of;
use belvedere_storage::store::spaces::follows::{self, Observed};
use belvedere_storage::store::spaces::space::{self, SpaceRow};
use belvedere_storage::store::spaces::writers::{self, Listed, Track};
use belvedere_storage::store::spaces::{credentials, registrations};

/// The most by which the clock of a repo's host may be ahead.
const MAX_AHEAD_MICROS: u64 = 5 * 60 * 1_000_000;

/// Time for which a revoked credential is remembered: longer than any lasts, with the skew of clocks.
const REVOKED_SECONDS: i64 = 65 * 60;

/// Revoked credentials in one notice.
pub const MAX_REVOKED: usize = 100;

/// A notice of a write.
#[derive(Clone, Debug)]
pub struct WriteNotice {
    pub repo: Did,
    /// The rev of the repo.
    pub rev: Tid,
    /// The digest of its records.
    pub hash: [u8; 32],
    /// The host of the repo, if it names itself.
    pub host: Option<Did>,
    /// The space rev of the write, and the one before: the authority of the space has forwarded the notice.
    pub space_rev: Option<Tid>,
    pub prev_space_rev: Option<Tid>,
}

/// Whether a rev of another host is of the future.
pub(super) fn is_ahead(rev: Tid, now: Timestamp) -> bool {
    rev.timestamp_micros() > u64::try_from(now.0).unwrap_or_default() + MAX_AHEAD_MICROS
}

impl Spaces {
    /// Takes the notice of a write: from the host of a repo, which calls in the name of its author, about a space that this
    /// instance hosts; or from the authority of a space that is followed. The repo is copied then. A notice that is not newer than
    /// the last one changes nothing.
    ///
    /// # Errors
    /// [`SpaceError::FutureRev`]; 403 for another caller, and for an author who is not a writer of the space.
    pub async fn notify_write(
        &self,
        uri: &SpaceUri,
        viewer: &Viewer,
        notice: WriteNotice,
    ) -> Result<(), SpaceError> {
        let account = viewer.account()?;
        // A session of an app does not prove that a server calls.
        let is_server = account.app.is_none();
        let is_forwarded = notice.space_rev.is_some() && account.did == uri.did;
        if !is_server || account.did != notice.repo && !is_forwarded {
            return Err(SpaceError::NotAuthorized("only the host of a repo sends notices of its writes"));
        }
        let now = self.core().clock.now();
        if is_ahead(notice.rev, now) || notice.space_rev.is_some_and(|rev| is_ahead(rev, now)) {
            return Err(SpaceError::FutureRev);
        }
        let space = self.find(uri).await?;
        match notice.space_rev {
            Some(space_rev) if !space.is_hosted && account.did == uri.did => {
                self.take_forwarded(&space, notice, space_rev).await
            }
            _ if space.is_hosted && account.did == notice.repo => self.track(&space, account, &notice).await,
            _ => Err(SpaceError::NoSpace),
        }
    }

    /// Takes a notice about a hosted space, and forwards it to the services that are registered.
    async fn track(
        &self,
        space: &SpaceRow,
        account: &Account,
        notice: &WriteNotice,
    ) -> Result<(), SpaceError> {
        let WriteNotice { repo, rev, hash, host, .. } = notice;
        let membership = Membership::new(space, repo);
        if !self.is_writer(&membership).await? {
            return Err(self
                .refused(&membership, account, "Write access is required for this action")
                .await?);
        }
        let (db, now) = (&self.core().db, self.core().clock.now());
        match writers::track(db, space.id, repo, (*rev, *hash), host.as_ref(), now).await? {
            Track::Stored(_) => {
                self.0.queued.notify_one();
                self.0.changed.notify_one();
            }
            Track::Stale => {}
            Track::NoSpace => return Err(SpaceError::NoSpace),
        }
        Ok(())
    }

    /// Takes a notice about a followed space from its authority.
    async fn take_forwarded(
        &self,
        space: &SpaceRow,
        notice: WriteNotice,
        space_rev: Tid,
    ) -> Result<(), SpaceError> {
        let WriteNotice { repo: author, rev, hash, host, prev_space_rev, .. } = notice;
        let listed = Listed { author, rev, hash, host, space_rev };
        let (db, now) = (&self.core().db, self.core().clock.now());
        match follows::observe(db, space.id, &listed, prev_space_rev, now).await? {
            Observed::Next | Observed::Gap => self.0.changed.notify_one(),
            Observed::Old => {}
            Observed::NotFollowed => return Err(SpaceError::NoSpace),
        }
        Ok(())
    }

    /// Takes the notice that the authority of a space has deleted it: it receives no more notices, and the space is not followed. The
    /// repos of our users stay: no other server has them, and only their authors delete them.
    ///
    /// # Errors
    /// [`SpaceError::NotAuthority`]; [`SpaceError::NoSpace`] for one that is not known here.
    pub async fn notify_space_deleted(&self, uri: &SpaceUri, viewer: &Viewer) -> Result<(), SpaceError> {
        let Some(space) = self.of_authority(uri, viewer).await? else { return Err(SpaceError::NoSpace) };
        let db = &self.core().db;
        follows::end_all(db, space.id).await?;
        registrations::unregister(db, space.id, &host_of(&uri.did)).await?;
        Ok(())
    }

    /// Takes the notice that the authority of a space has revoked credentials. They open nothing here from then on.
    ///
    /// # Errors
    /// [`SpaceError::NotAuthority`]; 400 for none, or more than [`MAX_REVOKED`].
    pub async fn notify_credential_revoked(
        &self,
        uri: &SpaceUri,
        viewer: &Viewer,
        jtis: &[String],
    ) -> Result<(), SpaceError> {
        if jtis.is_empty() || jtis.len() > MAX_REVOKED {
            return Err(SpaceError::invalid(format!("credentials must have 1 to {MAX_REVOKED} entries")));
        }
        // There is nothing here that credentials for a space without a row could open.
        let Some(space) = self.of_authority(uri, viewer).await? else { return Ok(()) };
        let now = self.core().clock.now();
        let keep_until = now.plus_seconds(REVOKED_SECONDS);
        Ok(credentials::revoke(&self.core().db, space.id, jtis, now, keep_until).await?)
    }

    /// A space of another host, for its authority; `None` when it is not known here.
    async fn of_authority(&self, uri: &SpaceUri, viewer: &Viewer) -> Result<Option<SpaceRow>, SpaceError> {
        let account = viewer.account()?;
        if account.did != uri.did || account.app.is_some() {
            return Err(SpaceError::NotAuthority);
        }
        match space::get(&self.core().db, uri).await? {
            Some(space) if space.is_hosted => Err(SpaceError::NotAuthority),
            found => Ok(found),
        }
    }
}
