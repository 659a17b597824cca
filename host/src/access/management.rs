//! Authenticates calls to the service's own methods, by which third parties manage their API clients and linked
//! accounts: the caller needs a user's DPoP session (service.md, Third-party client management).

use std::sync::Arc;

use super::rate_limit::Budget;
use super::{Access, Admission, ApiClient, Credential, Rejected};
use crate::atproto::Did;
use crate::http::{Error, Request};
use crate::pds::SessionAuthority;

/// A user, and the API client that they are logged in with.
#[derive(Clone, Debug)]
pub struct ClientUser {
    pub client: Arc<ApiClient>,
    pub did: Did,
    /// Id of the session that the user proved to hold.
    pub session: Arc<str>,
    budget: Option<Budget>,
}

impl Access {
    /// Authenticates the caller as for every other XRPC method, but accepts DPoP only.
    ///
    /// # Errors
    /// 401 with the specification's texts, 429 when the bucket is empty.
    pub async fn admit_management(&self, request: &Request, method: &str) -> Result<ClientUser, Rejected> {
        let refused = |error| Rejected { error, budget: None };
        if !matches!(Credential::of(request.headers()), Credential::Dpop(_)) {
            return Err(refused(Error::unauthorized("requires DPoP authentication")));
        }
        match self.clients.named_by(request) {
            Ok(Some(_)) => {}
            Ok(None) => return Err(refused(Error::unauthorized("requires an API client key"))),
            Err(error) => return Err(refused(error)),
        }
        let Admission { caller, client, budget } = self.admit_xrpc(request, method).await?;
        let is_proven = caller.proven_client().is_some();
        match (client.filter(|_| is_proven), caller.did, caller.authority) {
            (Some(client), Some(did), SessionAuthority::Session { id: session, .. }) => {
                Ok(ClientUser { client, did, session, budget })
            }
            // Not reached: a DPoP session has a client and a user.
            _ => Err(refused(Error::unauthorized("requires DPoP authentication"))),
        }
    }
}

impl ClientUser {
    /// The client's remaining budget after this call.
    pub fn budget(&self) -> Option<Budget> {
        self.budget
    }

    /// Rejects child clients.
    ///
    /// # Errors
    /// 401.
    pub fn require_top_level(&self) -> Result<(), Error> {
        if self.client.parent.is_some() {
            return Err(Error::unauthorized("child clients cannot manage API clients"));
        }
        Ok(())
    }
}
