//! Admits calls of the methods of spaces (spaces.md §5): with a user, with a credential, with a delegation token, or without any
//! of these.

mod attestation;
mod error;
mod lines;
mod tokens;
mod verified;

use std::sync::Arc;

use super::rate_limit::Budget;
use super::{Access, Admission, ApiClient, CalledMethod, Rejected, Sender, scopes};
use belvedere_instance::pds::SessionAuthority;
use belvedere_instance::spaces::{Account, Delegate, Viewer};
use belvedere_web::http::{Error, Request};

pub use attestation::ClientKeySets;
pub use error::SpaceTokenError;
pub use verified::VerifiedCredentials;

/// An admitted call of a caller of one kind.
#[derive(Debug)]
pub struct SpaceAdmission<C> {
    pub caller: C,
    pub client: Option<Arc<ApiClient>>,
    pub budget: Option<Budget>,
}

impl Access {
    /// Identifies the caller of a method of spaces and charges the call.
    ///
    /// # Errors
    /// As [`Access::admit_xrpc`]; with the names of [`SpaceTokenError`] for a credential.
    pub async fn admit_space(
        &self,
        request: &Request,
        method: CalledMethod<'_>,
    ) -> Result<SpaceAdmission<Viewer>, Rejected> {
        if let Some(token) = tokens::presented_credential(request.headers()) {
            return self
                .admit_bearer(request, method, async |sender| {
                    let presented = tokens::verify_credential(self, sender, request.headers(), token).await?;
                    let bucket = format!("credential {}", presented.jti);
                    Ok((Viewer::Credential(presented), bucket))
                })
                .await;
        }
        let Admission { caller, client, budget, session_scopes } = self.admit_xrpc(request, method).await?;
        let rejected = |error| Rejected { error, budget };
        let Some(did) = caller.did else {
            return Ok(SpaceAdmission { caller: Viewer::Anonymous, client, budget });
        };
        // Only a call with a proof of an app's session shows which app it is: a client that is only named has no session.
        let app = match (&client, session_scopes) {
            (Some(client), Some(session)) => {
                let scopes = scopes::effective(self, client, &session).await;
                Some(scopes.map_err(|error| rejected(Error::from(error)))?)
            }
            _ => None,
        };
        // The super user administers with a login at the instance only, so that no app acts with these rights.
        let is_own_login = matches!(caller.authority, SessionAuthority::Session { client: None, .. });
        let user = if is_own_login { self.users.in_person(self, &did).await } else { Ok(None) };
        let user = user.map_err(|error| rejected(Error::from(error)))?;
        let is_super_user = user.is_some_and(|user| user.is_super);
        let caller = Viewer::Account(Account { did, app, is_super_user });
        Ok(SpaceAdmission { caller, client, budget })
    }

    /// Verifies the delegation token of a request for a credential, and charges the call. The token is used up.
    ///
    /// # Errors
    /// Those of [`SpaceTokenError`]; 429 when the bucket is empty.
    pub async fn admit_delegate(
        &self,
        request: &Request,
        method: CalledMethod<'_>,
    ) -> Result<SpaceAdmission<Delegate>, Rejected> {
        self.admit_bearer(request, method, async |sender| {
            let delegate = tokens::verify_delegation(self, sender, request.headers()).await?;
            let bucket = format!("delegation {}", delegate.account);
            Ok((delegate, bucket))
        })
        .await
    }

    /// Admits a call with a token that needs no client. `verify` returns the caller, and the bucket that pays for the call if it
    /// names no client.
    async fn admit_bearer<C>(
        &self,
        request: &Request,
        method: CalledMethod<'_>,
        verify: impl AsyncFnOnce(&Sender<'_>) -> Result<(C, String), SpaceTokenError>,
    ) -> Result<SpaceAdmission<C>, Rejected> {
        let admitted = async {
            let client = self.clients.named_by(request)?;
            let sender = Sender::of(self, request);
            sender.check_failures()?;
            let verified = verify(&sender).await;
            let (caller, bucket) = sender.charge_if_failure(verified, SpaceTokenError::is_failure)?;
            let budget = Some(self.charge_bearer(client.as_deref(), &bucket, method)?);
            Ok(SpaceAdmission { caller, client, budget })
        };
        admitted.await.map_err(|error| Rejected { error, budget: None })
    }
}
