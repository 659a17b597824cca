//! `POST /auth/logout`: ends the session with the PDS, and with it this browser's. Without one there is nothing to do.

use std::sync::Arc;

use http::StatusCode;
use http::header::SET_COOKIE;

use crate::app::App;
use crate::http::{Error, Request, Response, response};

pub async fn handle(app: Arc<App>, request: Request) -> Result<Response, Error> {
    let user = app.access.web_sessions.user(request.method(), request.headers(), app.clock.now()).await?;
    if let Some(user) = user {
        app.vault.end(&user.session).await?;
    }
    let mut answer = response::empty(StatusCode::NO_CONTENT);
    answer.headers_mut().insert(SET_COOKIE, app.access.web_sessions.cleared());
    Ok(answer)
}
