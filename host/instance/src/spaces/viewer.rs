//! On whose behalf a call acts in a space.

use std::sync::Arc;

use super::{SpaceError, Spaces};
use crate::pds::EffectiveScopes;
use crate::repos::caller_session::NoSession;
use crate::xrpc::Caller;
use belvedere_protocol::atproto::scope::{Need, SpaceAction, SpaceAuthority, SpaceManage, SpacePlace};
use belvedere_protocol::atproto::{Did, Nsid};
use belvedere_protocol::crypto::PublicKey;
use belvedere_protocol::spaces::SpaceUri;
use belvedere_protocol::spaces::app_gate::{self, RecordCall};
use belvedere_protocol::spaces::r10::token::TokenError;
use belvedere_storage::store::spaces::credentials::Opening;
use belvedere_web::fair_share::Tenant;

/// On whose behalf a call acts.
#[derive(Clone, Debug)]
pub enum Viewer {
    /// A call without a user.
    Anonymous,
    Account(Account),
    /// The holder of a verified credential.
    Credential(Presented),
}

/// A credential that a request presents: its issuer has signed it, and the request proves that its sender holds the key.
#[derive(Clone, Debug)]
pub struct Presented {
    /// The space that it opens.
    pub space: SpaceUri,
    /// The DID that the request is addressed to.
    pub audience: Did,
    pub jti: String,
}

impl Presented {
    /// Checks that the credential is for a space.
    ///
    /// # Errors
    /// [`TokenError::OtherSpace`]
    pub(super) fn check_space(&self, uri: &SpaceUri) -> Result<(), SpaceError> {
        if self.space == *uri { Ok(()) } else { Err(TokenError::OtherSpace.into()) }
    }

    /// Checks that the credential opens its space, for a call about a repo or about all of it. A call is addressed to the DID whose
    /// server answers it: that of the repo, or the authority of the space.
    ///
    /// # Errors
    /// [`SpaceError::NoSpace`], also when another server hosts the space and the call names no repo; [`SpaceError::Audience`],
    /// [`TokenError::Revoked`]
    pub(super) fn check_opens(&self, opening: Opening, repo: Option<&Did>) -> Result<(), SpaceError> {
        if opening.is_deleted {
            return Err(SpaceError::NoSpace);
        }
        let audience = repo.unwrap_or(&self.space.did);
        if self.audience != *audience {
            return Err(SpaceError::Audience(audience.to_string()));
        }
        if opening.is_revoked {
            return Err(TokenError::Revoked.into());
        }
        if opening.is_hosted || repo.is_some() { Ok(()) } else { Err(SpaceError::NoSpace) }
    }
}

/// An app with a verified delegation token, which it has used now.
#[derive(Clone, Debug)]
pub struct Delegate {
    /// The space that the account lets it read.
    pub space: SpaceUri,
    pub account: Did,
    /// The key that the app holds.
    pub key: PublicKey,
}

/// A user.
#[derive(Clone, Debug)]
pub struct Account {
    pub did: Did,
    /// The scopes of the app. `None` for a user without one, to whom the rules about apps do not apply: one who is logged in at
    /// the instance itself, or calls with a service token.
    pub app: Option<Arc<EffectiveScopes>>,
    pub is_super_user: bool,
}

impl Viewer {
    /// The user.
    ///
    /// # Errors
    /// [`SpaceError::Anonymous`] for a call without one; 403 for a credential, which only reads.
    pub fn account(&self) -> Result<&Account, SpaceError> {
        match self {
            Self::Account(account) => Ok(account),
            Self::Anonymous => Err(SpaceError::Anonymous),
            Self::Credential(_) => Err(SpaceError::NotAuthorized("Write access is required for this action")),
        }
    }

    /// The tenant for whom work about a space is done. All holders of credentials for a space are one.
    pub fn tenant(&self, space: &SpaceUri) -> Tenant {
        match self {
            Self::Account(account) => Tenant::of_did(account.did.as_str()),
            Self::Credential(_) | Self::Anonymous => Tenant::Account(space.to_string().into()),
        }
    }
}

impl Spaces {
    /// The caller of a script, with the scopes that the session has now.
    ///
    /// # Errors
    /// [`SpaceError::NoSession`] when the session of an app has ended, and for a job without `auth`.
    pub async fn viewer_of(&self, caller: &Caller) -> Result<Viewer, SpaceError> {
        let Some(did) = caller.did.clone() else { return Ok(Viewer::Anonymous) };
        // It could have been created with any app.
        if caller.is_of_job && !caller.authority.is_some() {
            return Err(NoSession::JobWithoutAuth.into());
        }
        let app = if caller.authority.client().is_some() {
            let session = self.0.repos.session_of_caller(caller, None).await??;
            // A session of an app that has no scopes may do nothing.
            Some(session.permits.clone().unwrap_or_default())
        } else {
            None
        };
        // No script acts with the rights of the super user.
        Ok(Viewer::Account(Account { did, app, is_super_user: false }))
    }
}

impl Account {
    /// Checks that the app may call for records of a collection; `None`: of all that the type declares. `declared`: these.
    ///
    /// # Errors
    /// [`SpaceError::Scope`]
    pub(super) fn check_app(
        &self,
        call: RecordCall,
        space: &SpaceUri,
        collection: Option<&Nsid>,
        declared: &[Nsid],
    ) -> Result<(), SpaceError> {
        if self.app_may(call, space, collection, declared) {
            return Ok(());
        }
        let collection = collection.map(|name| format!("&collection={name}")).unwrap_or_default();
        Err(self.missing(space, &format!("{collection}&action={}", call.action().as_str())))
    }

    /// Whether the app may do so.
    pub(super) fn app_may(
        &self,
        call: RecordCall,
        space: &SpaceUri,
        collection: Option<&Nsid>,
        declared: &[Nsid],
    ) -> bool {
        self.any_authority(space, |scopes, authority| {
            scopes.allow(&call.need(space, authority, collection, declared))
        })
    }

    /// Checks that the app may manage a space.
    ///
    /// # Errors
    /// [`SpaceError::Scope`]
    pub(super) fn check_manages(&self, action: SpaceManage, space: &SpaceUri) -> Result<(), SpaceError> {
        let may = self.any_authority(space, |scopes, authority| {
            scopes.allow(&Need::ManageSpace { at: app_gate::place(space, authority), action })
        });
        if may { Ok(()) } else { Err(self.missing(space, &format!("&manage={}", action.as_str()))) }
    }

    /// Whether the app may learn in which spaces of a type the user has a repo; `None`: of all types.
    pub(super) fn app_may_list(&self, kind: Option<&str>) -> bool {
        let Some(scopes) = &self.app else { return true };
        let at = SpacePlace { kind, authority: &SpaceAuthority::Any, skey: None };
        scopes.allow(&Need::Space { at, collection: None, is_declared: true, action: SpaceAction::ReadSelf })
    }

    /// Whether the scopes allow something with the authority of a space. A scope with the authority `self` is about spaces of
    /// the user who granted it.
    fn any_authority(
        &self,
        space: &SpaceUri,
        allow: impl Fn(&EffectiveScopes, &SpaceAuthority) -> bool,
    ) -> bool {
        let Some(scopes) = &self.app else { return true };
        allow(scopes, &SpaceAuthority::Did(space.did.clone()))
            || space.did == self.did && allow(scopes, &SpaceAuthority::Own)
    }

    fn missing(&self, space: &SpaceUri, rest: &str) -> SpaceError {
        let authority =
            if space.did == self.did { String::new() } else { format!("authority={}", space.did) };
        let query = format!("{authority}{rest}");
        SpaceError::Scope(format!("space:{}?{}", space.kind, query.trim_start_matches('&')))
    }
}
