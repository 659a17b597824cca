//! Authenticates calls to the service's own methods, by which third parties manage their API clients and linked
//! accounts: the caller needs a user's DPoP session (service.md, Third-party client management).

use std::sync::Arc;

use http::StatusCode;

use super::rate_limit::Budget;
use super::{Access, Admission, ApiClient, CalledMethod, Credential, Rejected};
use belvedere_instance::pds::SessionAuthority;
use belvedere_protocol::atproto::Did;
use belvedere_web::http::{Error, Request};

const NOT_DPOP: &str = "requires DPoP authentication";

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
    pub async fn admit_management(
        &self,
        request: &Request,
        method: CalledMethod<'_>,
    ) -> Result<ClientUser, Rejected> {
        let refused = |error| Rejected { error, budget: None };
        let is_dpop = matches!(Credential::of(request.headers()), Credential::Dpop(_));
        match self.clients.named_by(request) {
            Ok(Some(_)) => {}
            _ if !is_dpop => return Err(refused(Error::unauthorized(NOT_DPOP))),
            Ok(None) => return Err(refused(Error::unauthorized("requires an API client key"))),
            Err(error) => return Err(refused(error)),
        }
        // Charged before any rejection, as every procedure is (service.md, XRPC).
        let admitted = self.admit_xrpc(request, method).await;
        if !is_dpop {
            let budget = match admitted {
                Err(rejected) if rejected.error.status == StatusCode::TOO_MANY_REQUESTS => {
                    return Err(rejected);
                }
                Err(rejected) => rejected.budget,
                Ok(admission) => admission.budget,
            };
            return Err(Rejected { error: Error::unauthorized(NOT_DPOP), budget });
        }
        let Admission { caller, client, budget, .. } = admitted?;
        let is_proven = caller.proven_client().is_some();
        match (client.filter(|_| is_proven), caller.did, caller.authority) {
            (Some(client), Some(did), SessionAuthority::Session { id: session, .. }) => {
                Ok(ClientUser { client, did, session, budget })
            }
            // Not reached: a DPoP session has a client and a user.
            _ => Err(refused(Error::unauthorized(NOT_DPOP))),
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
