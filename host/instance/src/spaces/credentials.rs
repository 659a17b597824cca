//! Issues delegation tokens, and exchanges them for credentials (spaces.md §7, docs/adr/0112-spaces-delegation-to-itself.md).

use super::access::Membership;
use super::error::ExchangeError;
use super::{Delegate, SpaceError, Spaces, Viewer};
use belvedere_base::clock::Timestamp;
use belvedere_protocol::crypto::PublicKey;
use belvedere_protocol::spaces::SpaceUri;
use belvedere_protocol::spaces::app_gate::{AppDecision, RecordCall};
use belvedere_protocol::spaces::r10::token::{
    Binding, Credential, Delegation, KeyId, Signer, Times, TokenError,
};
use belvedere_storage::store::spaces::credentials;
use belvedere_storage::store::spaces::space::{self, SpaceRow};

/// Random bytes of a token's `jti`.
const JTI_BYTES: usize = 16;

/// A token for an app.
#[derive(Clone, Debug)]
pub struct IssuedToken {
    pub token: String,
    pub expires_at: Timestamp,
}

impl IssuedToken {
    fn new((token, times): (String, Times)) -> Self {
        Self { token, expires_at: Timestamp(0).plus_seconds(times.expires_at) }
    }
}

impl Spaces {
    /// A token with which the app of a user may request a credential for a space that this instance hosts.
    ///
    /// # Errors
    /// [`SpaceError::NotHosted`] for a space of another host, and for someone who may not know that the space exists; 403 for
    /// someone who would not receive a credential.
    pub async fn delegate(&self, uri: &SpaceUri, viewer: &Viewer) -> Result<IssuedToken, SpaceError> {
        let account = viewer.account()?;
        let hidden = |error| if matches!(error, SpaceError::NoSpace) { SpaceError::NotHosted } else { error };
        let space = self.find(uri).await.map_err(hidden)?;
        if !space.is_hosted {
            return Err(SpaceError::NotHosted);
        }
        let membership = Membership::new(&space, &account.did);
        if !self.gets_credential(&membership, None).await? {
            let why = "you may not read all records of this space";
            return Err(hidden(self.refused(&membership, account, why).await?));
        }
        account.check_app(RecordCall::Delegate, uri, None, &self.declared(&uri.kind))?;
        let core = self.core();
        let signer = (self.delegation_key().await?, Signer::Host);
        let (jti, now) = (core.random.hex(JTI_BYTES), core.clock.now());
        Ok(IssuedToken::new(Delegation::issue(signer, &account.did, uri, &jti, now)))
    }

    /// Issues a credential to an app. `client`: its attested client id.
    ///
    /// # Errors
    /// [`SpaceError::Token`] when the delegation is for another space; [`SpaceError::Exchange`]
    pub async fn exchange(
        &self,
        uri: &SpaceUri,
        delegate: &Delegate,
        client: Option<&str>,
    ) -> Result<IssuedToken, SpaceError> {
        if delegate.space != *uri {
            return Err(TokenError::OtherSpaceDelegated.into());
        }
        let space = self.granting(uri, delegate, client).await?;
        let core = self.core();
        let (jti, binding) = (core.random.hex(JTI_BYTES), Binding::Key(delegate.key.clone()));
        let key = self.key().await?;
        let issued = Credential::issue(key, KeyId::AtprotoSpace, uri, &binding, &jti, core.clock.now());
        let (issued, until) = (IssuedToken::new(issued.clone()), issued.1.accepted_until());
        if !credentials::issue(&core.db, space.id, &jti, &delegate.account, until).await? {
            return Err(ExchangeError::Deleted.into());
        }
        // The user may have lost the right meanwhile, before the credential could be revoked.
        self.granting(uri, delegate, client).await?;
        Ok(issued)
    }

    /// The space, if it grants a credential.
    async fn granting(
        &self,
        uri: &SpaceUri,
        delegate: &Delegate,
        client: Option<&str>,
    ) -> Result<SpaceRow, SpaceError> {
        let found = space::get(&self.core().db, uri).await?.filter(|space| space.is_hosted);
        let space = found.ok_or(ExchangeError::NoSpace)?;
        if space.deleted_at.is_some() {
            return Err(ExchangeError::Deleted.into());
        }
        match space.settings.app_access.decide(client) {
            AppDecision::Allowed => {}
            AppDecision::NeedsAttestation => return Err(ExchangeError::NoAttestation.into()),
            AppDecision::Denied => return Err(ExchangeError::App.into()),
        }
        let is_reader = self.gets_credential(&Membership::new(&space, &delegate.account), client).await?;
        if is_reader { Ok(space) } else { Err(ExchangeError::User.into()) }
    }

    /// The key `#atproto_space` for the verification of a credential, if this instance is the host of its space. `None` when
    /// the DID document of the authority has the key.
    ///
    /// # Errors
    /// When the store can't be read.
    pub async fn credential_key(&self, uri: &SpaceUri) -> Result<Option<PublicKey>, SpaceError> {
        let is_own = self.0.identity.signing_did().as_ref() == Some(&uri.did)
            || space::get(&self.core().db, uri).await?.is_some_and(|space| space.is_hosted);
        Ok(if is_own { Some(self.key().await?.public()) } else { None })
    }

    /// The key for the verification of delegation tokens that this instance issued to itself.
    ///
    /// # Errors
    /// When the store can't be read.
    pub async fn own_delegation_key(&self) -> Result<PublicKey, SpaceError> {
        Ok(self.delegation_key().await?.public())
    }
}
