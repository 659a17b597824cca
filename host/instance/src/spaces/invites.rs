//! Invites: with the token of one, a user becomes a member.

use super::{SpaceError, Spaces, Viewer};
use belvedere_base::clock::Timestamp;
use belvedere_protocol::atproto::scope::SpaceManage;
use belvedere_protocol::crypto::sha256;
use belvedere_protocol::spaces::SpaceUri;
use belvedere_protocol::spaces::access::MemberAccess;
use belvedere_protocol::spaces::app_gate::RecordCall;
use belvedere_storage::store::spaces::invites::{self, Accepted, AttemptLimit, InviteRow, NewInvite};
use belvedere_storage::store::spaces::space;

/// Random bytes of a token.
const TOKEN_BYTES: usize = 24;

/// The tokens that an account may try. Guessing one takes more than all accounts of a network have.
const ATTEMPTS: AttemptLimit = AttemptLimit { attempts: 10, seconds: 60 };

/// An invite to make.
#[derive(Clone, Copy, Debug)]
pub struct InviteRequest {
    pub access: MemberAccess,
    /// `None`: any number.
    pub max_uses: Option<i64>,
    /// `None`: never.
    pub expires_at: Option<Timestamp>,
}

/// An invite, with the token that is shown only once.
#[derive(Clone, Debug)]
pub struct CreatedInvite {
    pub id: String,
    pub token: String,
}

impl Spaces {
    /// Makes an invite.
    ///
    /// # Errors
    /// [`SpaceError::NotAdministrator`]; 400 for one that can't be used.
    pub async fn create_invite(
        &self,
        uri: &SpaceUri,
        viewer: &Viewer,
        request: InviteRequest,
    ) -> Result<CreatedInvite, SpaceError> {
        let (account, core) = (viewer.account()?, self.core());
        let space = self.administered(uri, viewer, SpaceManage::Update).await?;
        let now = core.clock.now();
        if request.max_uses.is_some_and(|uses| uses < 1) {
            return Err(SpaceError::invalid("maxUses must be at least 1"));
        }
        if request.expires_at.is_some_and(|at| at <= now) {
            return Err(SpaceError::invalid("expiresAt must be in the future"));
        }
        let invite = CreatedInvite { id: core.random.uuid(), token: core.random.hex(TOKEN_BYTES) };
        let InviteRequest { access, max_uses, expires_at } = request;
        let new = NewInvite {
            id: &invite.id,
            token_hash: &sha256(invite.token.as_bytes()),
            access,
            max_uses,
            expires_at,
            created_by: &account.did,
        };
        if invites::create(&core.db, space.id, &new, now).await? {
            Ok(invite)
        } else {
            Err(SpaceError::NoSpace)
        }
    }

    /// Makes the caller a member. Returns the space and the caller's rights.
    ///
    /// # Errors
    /// 404, 400 and 409 with the texts of the specification, 429 for an account that tries many tokens.
    pub async fn accept_invite(
        &self,
        viewer: &Viewer,
        token: &str,
    ) -> Result<(SpaceUri, MemberAccess), SpaceError> {
        let (account, core) = (viewer.account()?, self.core());
        let (db, now) = (&core.db, core.clock.now());
        if !invites::attempt(db, &account.did, ATTEMPTS, now).await? {
            return Err(SpaceError::TooManyAttempts);
        }
        let hash = sha256(token.as_bytes());
        // The space is looked up before the invite is used: the app may have no scope for it.
        let unknown = SpaceError::NotFound("no invite has this token");
        let Some(space) = space::of_invite(db, &hash).await? else { return Err(unknown) };
        account.check_app(RecordCall::ReadOwn, &space.uri, None, &self.declared(&space.uri.kind))?;
        match invites::accept(db, &hash, &account.did, now).await? {
            Accepted::Joined { access, .. } => Ok((space.uri, access)),
            Accepted::Unknown => Err(unknown),
            Accepted::Revoked => Err(SpaceError::invalid("the invite was revoked")),
            Accepted::Expired => Err(SpaceError::invalid("the invite has expired")),
            Accepted::UsedUp => Err(SpaceError::invalid("maximum uses reached")),
            Accepted::IsMember => Err(SpaceError::Conflict("already a member")),
        }
    }

    /// Revokes an invite of the space, also again.
    ///
    /// # Errors
    /// [`SpaceError::NotAdministrator`]; 404 when the space has no such invite.
    pub async fn revoke_invite(&self, uri: &SpaceUri, viewer: &Viewer, id: &str) -> Result<(), SpaceError> {
        let space = self.administered(uri, viewer, SpaceManage::Update).await?;
        let core = self.core();
        if invites::revoke(&core.db, space.id, id, core.clock.now()).await? {
            Ok(())
        } else {
            Err(SpaceError::NotFound("the space has no such invite"))
        }
    }

    /// A page of the invites of a space, newest first. `before`: time and id of the last one of the page before.
    ///
    /// # Errors
    /// [`SpaceError::NotAdministrator`]
    pub async fn invites(
        &self,
        uri: &SpaceUri,
        viewer: &Viewer,
        before: Option<(Timestamp, &str)>,
        limit: u32,
    ) -> Result<Vec<InviteRow>, SpaceError> {
        let space = self.administered(uri, viewer, SpaceManage::Update).await?;
        Ok(invites::page(&self.core().db, space.id, before, limit).await?)
    }
}
