//! `/auth/*`: logs users in with their PDS.

pub mod callback;
pub mod linked_repo;
pub mod login;
pub mod me;
mod session;
pub mod sessions;

use std::sync::Arc;

use http::StatusCode;
use http::header::{HeaderValue, LOCATION, SET_COOKIE};

use crate::app::App;
use belvedere_web::http::{Error, Request, Response, response};

/// A redirect with 303. Only for our own URLs, and for URLs that were checked.
pub(in crate::api) fn redirect(to: &str) -> Response {
    let mut answer = response::empty(StatusCode::SEE_OTHER);
    let to = HeaderValue::try_from(to).unwrap_or(HeaderValue::from_static("/"));
    answer.headers_mut().insert(LOCATION, to);
    answer
}

/// `POST /auth/logout`: ends the session with the PDS, and thereby the browser session. Without one it does nothing.
pub async fn logout(app: Arc<App>, request: Request) -> Result<Response, Error> {
    let user = app.access.web_sessions.user(request.method(), request.headers(), app.clock.now()).await?;
    if let Some(user) = user {
        app.sessions.vault.end(&user.session).await?;
    }
    let mut answer = response::empty(StatusCode::NO_CONTENT);
    answer.headers_mut().insert(SET_COOKIE, app.access.web_sessions.removal_cookie());
    Ok(answer)
}
