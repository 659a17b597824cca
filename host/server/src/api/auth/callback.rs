//! `GET /auth/callback`: completes an authorization when the user returns from their authorization server. Redirects.
//! Failures are shown on a page too.

use std::sync::Arc;

use http::header::SET_COOKIE;

use super::session::store_session;
use super::{linked_repo, redirect};
use crate::access::Browser;
use crate::api::answer::{Built, Redirect};
use crate::app::App;
use belvedere_instance::events::Event;
use belvedere_instance::oauth::{AuthorizationError, Callback, FlowError, FlowGoal, own};
use belvedere_protocol::atproto::Did;
use belvedere_storage::store::service_identity;
use belvedere_web::http::{Error, Request};

pub async fn handle(app: Arc<App>, request: Request) -> Result<Built<Redirect>, Error> {
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
        Err((error, goal)) => {
            tracing::info!(%error, "a login did not succeed");
            let reason = code_of(&error);
            // Without a login that began here, anybody could fill the event log.
            if goal.is_some() {
                report_refusal(&app, None, reason);
            }
            return Ok(to_login(reason));
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
        report_refusal(&app, Some(&completed.did), "other_browser");
        return Ok(to_login("expired"));
    }
    let is_attached = app.service_identity.attached_account().as_ref() == Some(&completed.did);
    let returns_to = if is_attached { interrupted(&app, &request, &completed.did).await? } else { None };
    if returns_to.is_none() && !app.access.users.may_log_in(&app.access, &completed.did).await? {
        report_refusal(&app, Some(&completed.did), "not_authorized");
        return Ok(to_login("not_authorized"));
    }
    let session = store_session(&app, &completed).await?;
    if is_attached && completed.tokens.scope.split(' ').any(|scope| scope == own::IDENTITY_SCOPE) {
        service_identity::set_session(&app.db, completed.did.as_str(), &session).await?;
    }
    let (now, sessions) = (app.clock.now(), &app.access.web_sessions);
    let browser = Browser::of(&app.access, &request);
    let (did, device) = (completed.did.to_string(), browser.device.clone());
    let cookie =
        sessions.create(&app.random, &completed.did, &session, browser, returns_to.as_deref(), now).await?;
    app.events.record(Event::SessionStarted { did, id: session, device });
    for surplus in app.access.web_sessions.surplus(&completed.did).await? {
        app.sessions.vault.end(&surplus).await?;
    }
    Ok(redirect(&return_to).with(SET_COOKIE, cookie))
}

/// The session of the user whose browser logs in with the attached account: the browser returns to it.
async fn interrupted(app: &App, request: &Request, attached: &Did) -> Result<Option<String>, Error> {
    let now = app.clock.now();
    let user = app.access.web_sessions.user(request.method(), request.headers(), now).await?;
    Ok(user.and_then(|user| if user.did == *attached { user.returns_to } else { Some(user.id) }))
}

/// The reason why a login failed, as a code that the login page explains. The parameters of the callback come through
/// the browser, so their text is not passed on.
fn code_of(error: &AuthorizationError) -> &'static str {
    match error {
        AuthorizationError::Expired => "expired",
        AuthorizationError::Denied(code) => match code.as_str() {
            "invalid_scope" => "invalid_scope",
            "server_error" => "server_error",
            "temporarily_unavailable" => "temporarily_unavailable",
            _ => "access_denied",
        },
        AuthorizationError::Issuer => "wrong_server",
        AuthorizationError::Account => "wrong_account",
        AuthorizationError::Scope => "invalid_scope",
        AuthorizationError::Flow(FlowError::Net(_)) => "unreachable",
        _ => "failed",
    }
}

/// Records that a login did not succeed.
fn report_refusal(app: &App, did: Option<&Did>, reason: &'static str) {
    app.events.record(Event::SessionRefused { did: did.map(Did::to_string), reason });
}

fn to_login(error: &str) -> Built<Redirect> {
    redirect(&format!("/login?error={error}"))
}
