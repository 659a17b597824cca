//! `GET /auth/callback`: completes an authorization when the user returns from their authorization server. Failures are
//! shown on a page too.

use std::sync::Arc;

use http::header::SET_COOKIE;

use super::{linked_repo, redirect};
use crate::access::secrets;
use crate::app::App;
use crate::crypto::jwk;
use crate::http::{Error, Request, Response};
use crate::oauth::{AuthorizationError, Callback, Completed, Goal};
use crate::pds::Registration;
use crate::store::dpop_keys::{self, DpopKeyRow};

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
        Err((error, Some(Goal { grant: Some(_), .. }))) => {
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
    let Goal { return_to, browser, grant } = completed.goal.clone();
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

/// Stores the session with the PDS, and returns its id.
pub(super) async fn store_session(app: &App, completed: &Completed) -> Result<String, Error> {
    let Completed { did, account, client, kid, key, tokens, .. } = completed;
    let key_id = secrets::provision_id(&app.random);
    let row = DpopKeyRow {
        sealed: app.sessions.vault.seal_key(&key_id, key),
        id: key_id,
        client_id: None,
        thumbprint: jwk::thumbprint(&key.public()).unwrap_or_default(),
        pkce_challenge: None,
        // Set when the session is registered: until then the sweep treats the key as unused.
        did: None,
        created_at: app.clock.now(),
    };
    dpop_keys::create(&app.db, &row).await?;
    let registration = Registration {
        key_id: &row.id,
        client_id: None,
        did,
        pds: &account.pds,
        issuer: &account.server.issuer,
        scopes: &tokens.scope,
        access_token: tokens.access_token.reveal(),
        refresh_token: tokens.refresh_token.as_ref().map(|token| token.reveal().as_str()),
        expires_at: tokens.expires_at,
        oauth_client_id: &client.client_id,
        assertion_kid: kid.as_deref(),
    };
    let id = app.sessions.vault.register(&registration).await?;
    id.ok_or_else(|| Error::internal("a DPoP key that was just created is gone"))
}

fn to_login(error: &str) -> Response {
    redirect(&format!("/login?error={error}"))
}
