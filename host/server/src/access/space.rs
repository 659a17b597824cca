//! Admits calls of the methods of spaces, with or without a user (spaces.md §5, §7.5).

use std::sync::Arc;

use super::{Access, Admission, ApiClient, CalledMethod, Rejected, scopes};
use belvedere_instance::pds::SessionAuthority;
use belvedere_instance::spaces::{Account, Viewer};
use belvedere_web::http::{Error, Request};

/// An admitted call.
#[derive(Debug)]
pub struct SpaceAdmission {
    pub viewer: Viewer,
    pub client: Option<Arc<ApiClient>>,
    pub budget: Option<super::rate_limit::Budget>,
}

impl Access {
    /// Identifies the caller of a method of spaces and charges the call.
    ///
    /// # Errors
    /// As [`Access::admit_xrpc`].
    pub async fn admit_space(
        &self,
        request: &Request,
        method: CalledMethod<'_>,
    ) -> Result<SpaceAdmission, Rejected> {
        let Admission { caller, client, budget, session_scopes } = self.admit_xrpc(request, method).await?;
        let rejected = |error| Rejected { error, budget };
        let Some(did) = caller.did else {
            return Ok(SpaceAdmission { viewer: Viewer::Anonymous, client, budget });
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
        let viewer = Viewer::Account(Account { did, app, is_super_user });
        Ok(SpaceAdmission { viewer, client, budget })
    }
}
