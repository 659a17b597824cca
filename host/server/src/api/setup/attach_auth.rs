//! `POST /api/setup/attach-auth/confirm`: after a login with the attached account, the browser returns to the session of
//! the user who began the set-up.

use std::sync::Arc;

use http::header::SET_COOKIE;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::api::answer::{Built, Empty};
use crate::api::input::WithBody;
use crate::app::App;
use belvedere_protocol::atproto::Did;
use belvedere_storage::store::service_identity;
use belvedere_web::http::Error;

#[derive(Debug, Deserialize, JsonSchema)]
pub struct OriginalDid {
    #[schemars(extend("format" = "did"))]
    original_did: String,
}

/// Only the browser that was logged in as `original_did` when it logged in with the attached account returns there: the
/// account's owner becomes no other user. Allowed after the set-up too, because later updates need such logins.
pub async fn confirm(app: Arc<App>, request: WithBody<OriginalDid>) -> Result<Built<Empty>, Error> {
    let OriginalDid { original_did } = request.json()?;
    let now = app.clock.now();
    let user = app.access.web_sessions.user(request.method(), request.headers(), now).await?;
    let user = user.ok_or_else(|| Error::unauthorized("not authenticated"))?;
    if app.service_identity.attached_account().as_ref() != Some(&user.did) {
        return Err(Error::unauthorized("the login is not that of the attached account"));
    }
    let kept = service_identity::get(&app.db).await?.and_then(|row| row.attached_session_id);
    if kept.as_deref() != Some(user.session.as_str()) {
        let text =
            "the login lacks the scope identity:*, without which the account's DID document can't be changed";
        return Err(Error::bad_request(text));
    }
    let original = Did::try_from(original_did.as_str());
    let original = original.map_err(|_| Error::bad_request("original_did is not a DID"))?;
    let answer = Built::of(Empty);
    if user.returns_to.is_none() && original == user.did {
        return Ok(answer);
    }
    let cookie = app.access.web_sessions.switch_back(&app.random, &user, &original, now).await?;
    let cookie = cookie.ok_or_else(|| {
        Error::bad_request("this browser was not logged in as original_did, or not any more: log in again")
    })?;
    Ok(answer.with(SET_COOKIE, cookie))
}
