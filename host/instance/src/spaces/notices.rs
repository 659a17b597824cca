//! Notices that other servers send: of writes to repos, of deleted spaces, and of revoked credentials (spaces.md §11).

use super::access::Membership;
use super::{SpaceError, Spaces, Viewer};
use belvedere_protocol::atproto::{Did, Tid};
use belvedere_protocol::spaces::SpaceUri;
use belvedere_protocol::spaces::r10::token::host_of;
use belvedere_storage::store::spaces::space::{self, SpaceRow};
use belvedere_storage::store::spaces::writers::{self, Track};
use belvedere_storage::store::spaces::{credentials, follows, registrations};

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
}

impl Spaces {
    /// Takes the notice of a write from the host of a repo, which calls in the name of its author. It is forwarded to the
    /// services that are registered. A notice that is not newer than the last one changes nothing.
    ///
    /// # Errors
    /// [`SpaceError::FutureRev`]; 403 for another caller, and for an author who is not a writer of the space.
    pub async fn notify_write(
        &self,
        uri: &SpaceUri,
        viewer: &Viewer,
        notice: &WriteNotice,
    ) -> Result<(), SpaceError> {
        let account = viewer.account()?;
        // A session of an app does not prove that the host of the repo calls.
        if account.did != notice.repo || account.app.is_some() {
            return Err(SpaceError::NotAuthorized("only the host of a repo sends notices of its writes"));
        }
        let now = self.core().clock.now();
        let now_micros = u64::try_from(now.0).unwrap_or_default();
        if notice.rev.timestamp_micros() > now_micros + MAX_AHEAD_MICROS {
            return Err(SpaceError::FutureRev);
        }
        let space = self.find(uri).await?;
        if !space.is_hosted {
            return Err(SpaceError::NoSpace);
        }
        let membership = Membership::new(&space, &account.did);
        if !self.is_writer(&membership).await? {
            return Err(self
                .refused(&membership, account, "Write access is required for this action")
                .await?);
        }
        let WriteNotice { repo, rev, hash } = notice;
        match writers::track(&self.core().db, space.id, repo, *rev, *hash, now).await? {
            Track::Stored(_) => self.0.queued.notify_one(),
            Track::Stale => {}
            Track::NoSpace => return Err(SpaceError::NoSpace),
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
        follows::end(db, space.id).await?;
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
