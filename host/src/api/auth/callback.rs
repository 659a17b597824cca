//! `GET /auth/callback`: completes an authorization when the user returns from their authorization server. Failures are
//! shown on a page too.

use std::sync::Arc;

use http::header::SET_COOKIE;

use super::session::store_session;
use super::{linked_repo, redirect};
use crate::app::App;
use crate::http::{Error, Request, Response};
use crate::oauth::{AuthorizationError, Callback, FlowGoal};

pub async fn handle(app: Arc<App>, request: Request) -> Result<Response, Error> {
    let param = |name: &str| request.query(name);
    let (state, code, iss, error) = (param("state"), param("code"), param("iss"), param("error"));
    let callback = Callback {
        state: state.as_deref().unwrap_or_default(),
        code: code.as_deref(),
        iss: iss.as_deref(),
        error: error.as_deref(),
    };
    let completed = match app.sessions.authorizations.complete(&callback).await {
        Ok(completed) => completed,
        Err((AuthorizationError::Store(error), _)) => return Err(Error::from(error)),
        Err((error, Some(FlowGoal { grant: Some(_), .. }))) => {
            tracing::info!(%error, "a linked repo was not authorized");
            return Ok(redirect("/link/result?status=failed"));
        }
        Err((error, _)) => {
            tracing::info!(%error, "a login did not succeed");
            return Ok(to_login(match error {
                AuthorizationError::Expired => "expired",
                AuthorizationError::Denied(_) => "access_denied",
                _ => "failed",
            }));
        }
    };
    let FlowGoal { return_to, browser, grant } = completed.goal.clone();
    if let Some(goal) = grant {
        let status = linked_repo::link(&app, &completed, &goal).await?;
        let to = if goal.invite.is_none() && status == "success" {
            return_to
        } else {
            format!("/link/result?status={status}")
        };
        return Ok(redirect(&to));
    }
    if browser
        .as_deref()
        .is_some_and(|bound| !app.access.web_sessions.is_login_browser(request.headers(), bound))
    {
        tracing::info!(did = %completed.did, "a login was completed in another browser than it began in");
        return Ok(to_login("expired"));
    }
    if !app.access.users.may_log_in(&app.access, &completed.did).await? {
        return Ok(to_login("not_authorized"));
    }
    let session = store_session(&app, &completed).await?;
    let now = app.clock.now();
    let cookie = app.access.web_sessions.create(&app.random, &completed.did, &session, now).await?;
    for surplus in app.access.web_sessions.surplus(&completed.did).await? {
        app.sessions.vault.end(&surplus).await?;
    }
    let mut answer = redirect(&return_to);
    answer.headers_mut().append(SET_COOKIE, cookie);
    Ok(answer)
}

fn to_login(error: &str) -> Response {
    redirect(&format!("/login?error={error}"))
}
