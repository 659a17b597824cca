//! `GET /auth/linked-repo/start?token=&handle=`: on to the page that says what is asked, or with a handle to that account's
//! authorization server.

use std::sync::Arc;

use url::form_urlencoded;

use super::invited;
use crate::access::Sender;
use crate::api::auth::login::refused;
use crate::api::auth::redirect;
use crate::app::App;
use crate::atproto::Did;
use crate::http::{Error, Request, Response};
use crate::oauth::{Goal, GrantGoal};

pub async fn handle(app: Arc<App>, request: Request) -> Result<Response, Error> {
    let token = request.query("token").unwrap_or_default();
    let dead = || Error::bad_request("the link has been used, was revoked, or has expired");
    let (invite, grant) = invited(&app, &token).await?.ok_or_else(dead)?;
    let handle = request.query("handle").filter(|handle| !handle.trim().is_empty());
    let Some(handle) = handle else {
        let query = form_urlencoded::Serializer::new(String::new()).append_pair("token", &token).finish();
        return Ok(redirect(&format!("/link/start?{query}")));
    };
    let named = app.resolver.account(&handle).await.map_err(|error| Error::bad_request(error.to_string()))?;
    let did = match grant.did.as_deref().map(Did::try_from) {
        Some(Ok(pinned)) if pinned != named => {
            return Err(Error::bad_request("this link was issued for a different account"));
        }
        _ => named,
    };
    let goal = Goal {
        return_to: String::new(),
        browser: None,
        grant: Some(GrantGoal { id: grant.id, invite: Some(invite.id) }),
    };
    let origin = app.access.origins.of_host(request.headers());
    let sender = Sender::of(&app.access, &request);
    let url = app.authorizations.begin(&did, &origin, &grant.scopes, goal, sender.tenant()).await;
    let url = url.map_err(refused)?;
    Ok(redirect(url.as_str()))
}
