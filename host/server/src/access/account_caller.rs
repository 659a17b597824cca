//! `/external-auth`: authenticates users who link their accounts at other services, by a DPoP session of an API client or by
//! the cookie of a browser that is logged in at the instance (plugins.md §6).

use std::sync::Arc;

use http::StatusCode;
use url::Url;

use super::rate_limit::Budget;
use super::{Access, Admission, ApiClient, CalledMethod, Credential, Rejected};
use belvedere_instance::pds::SessionAuthority;
use belvedere_instance::xrpc::Verb;
use belvedere_scripting::plugins::accounts::AccountUser;
use belvedere_web::http::{Error, Request};

const NO_SESSION: &str = "requires a DPoP session of an API client, or a login at this instance";

/// Longest address to which a user returns, in bytes: browsers accept no longer ones reliably.
const MAX_RETURN: usize = 2_048;

/// A user, and the API client that they are logged in with.
#[derive(Clone, Debug)]
pub struct AccountCaller {
    pub user: AccountUser,
    /// `None` for a user of the dashboard, who is logged in at the instance itself.
    pub client: Option<Arc<ApiClient>>,
    budget: Option<Budget>,
}

impl Access {
    /// Authenticates and charges the caller as for an XRPC method of the instance, but accepts only a proof of a session.
    ///
    /// # Errors
    /// 401, 403 for a write from a page of another site, 429 when the bucket is empty.
    pub async fn admit_account_caller(&self, request: &Request) -> Result<AccountCaller, Rejected> {
        let is_session =
            matches!(Credential::of(request.headers()), Credential::Dpop(_) | Credential::Absent);
        let method = CalledMethod { nsid: "external-auth", verb: Verb::Procedure, is_fixed: true };
        // Charged before any rejection, as every call is.
        let admitted = self.admit_xrpc(request, method).await;
        if !is_session {
            return Err(match admitted {
                Err(rejected) if rejected.error.status == StatusCode::TOO_MANY_REQUESTS => rejected,
                Err(Rejected { budget, .. }) | Ok(Admission { budget, .. }) => {
                    Rejected { error: Error::unauthorized(NO_SESSION), budget }
                }
            });
        }
        let Admission { caller, client, budget, .. } = admitted?;
        match (caller.did, caller.authority) {
            (Some(did), SessionAuthority::Session { id: session, client: proven }) => {
                let user = AccountUser { did, session, tenant: caller.tenant };
                Ok(AccountCaller { user, client: client.filter(|_| proven.is_some()), budget })
            }
            _ => Err(Rejected { error: Error::unauthorized(NO_SESSION), budget }),
        }
    }

    /// Checks an address to which a user returns after a sign-in: one that the API client has registered, a page of its
    /// origins, or for a user of the dashboard a page of the instance. Returns it as an absolute URL.
    ///
    /// # Errors
    /// 400 for any other address.
    pub fn return_address(&self, caller: &AccountCaller, to: &str) -> Result<String, Error> {
        let refused = |what: &'static str| Err(Error::bad_request(what));
        if to.len() > MAX_RETURN || to.chars().any(char::is_control) {
            return refused("redirect_uri is too long or has control characters");
        }
        let origin_of = |url: &Url| {
            let is_page = matches!(url.scheme(), "https" | "http")
                && url.username().is_empty()
                && url.password().is_none();
            is_page.then(|| url.origin().ascii_serialization())
        };
        let Some(client) = &caller.client else {
            let own = format!("{}/", self.origins.primary());
            let base = Url::parse(&own).map_err(Error::internal)?;
            let url = if to.starts_with('/') { base.join(to).ok() } else { Url::parse(to).ok() };
            let url = url.filter(|url| origin_of(url).is_some_and(|origin| self.origins.contains(&origin)));
            return match url {
                Some(url) => Ok(url.into()),
                None => refused("redirect_uri must be a path, or a URL of this instance"),
            };
        };
        let is_page_of_client = || {
            Url::parse(to).is_ok_and(|url| origin_of(&url).is_some_and(|origin| client.has_origin(&origin)))
        };
        if (client.redirect_uris.iter().any(|registered| registered == to) && Url::parse(to).is_ok())
            || is_page_of_client()
        {
            return Ok(to.to_owned());
        }
        refused("redirect_uri must be one that the API client has registered, or a page of its origins")
    }
}

impl AccountCaller {
    /// The caller's remaining budget after this call.
    pub fn budget(&self) -> Option<Budget> {
        self.budget
    }
}
