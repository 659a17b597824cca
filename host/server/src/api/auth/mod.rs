//! `/auth/*`: logs users in with their PDS.

pub mod callback;
pub mod linked_repo;
pub mod login;
pub mod me;
mod session;
pub mod sessions;

use std::sync::Arc;

use http::header::{HeaderValue, LOCATION, SET_COOKIE};

use crate::api::answer::{Built, Empty, Redirect};
use crate::app::App;
use belvedere_web::http::{Error, Request};

/// A redirect with 303. Only for our own URLs, and for URLs that were checked.
pub(in crate::api) fn redirect(to: &str) -> Built<Redirect> {
    let to = HeaderValue::try_from(to).unwrap_or(HeaderValue::from_static("/"));
    Built::of(Empty).with(LOCATION, to)
}

/// `POST /auth/logout`: ends the session of this browser, and that with the PDS. Without one it does nothing.
pub async fn logout(app: Arc<App>, request: Request) -> Result<Built<Empty>, Error> {
    let user = app.access.web_sessions.user(request.method(), request.headers(), app.clock.now()).await?;
    if let Some(user) = user {
        app.sessions.vault.end(&user.session).await?;
    }
    Ok(Built::of(Empty).with(SET_COOKIE, app.access.web_sessions.removal_cookie()))
}
