//! `GET /auth/login`: begins a login. The answer has the URL that the page must navigate to.

use std::sync::Arc;

use http::StatusCode;
use http::header::SET_COOKIE;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use url::Url;

use crate::access::{Origins, Sender};
use crate::api::answer::{Built, Json};
use crate::api::input::WithQuery;
use crate::app::App;
use belvedere_instance::oauth::{AuthorizationError, FlowGoal, OwnClient, own};
use belvedere_protocol::atproto::scope::{Scope, Scopes, with_single_spaces};
use belvedere_protocol::atproto::typed;
use belvedere_web::http::Error;

/// The `redirect_uri` of a login without one.
const DEFAULT_RETURN: &str = "/dashboard/";

#[derive(Debug, Deserialize, JsonSchema)]
pub struct LoginQuery {
    #[schemars(required)]
    handle: Option<String>,
    redirect_uri: Option<String>,
    scope: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct LoginUrl {
    url: String,
}

pub async fn handle(app: Arc<App>, request: WithQuery<LoginQuery>) -> Result<Built<Json<LoginUrl>>, Error> {
    let query = request.parameters()?;
    let named = query.handle.filter(|handle| !typed(handle).is_empty());
    let named = named.ok_or_else(|| Error::bad_request("handle is missing: send a handle or a DID"))?;
    if request.query("client_id").is_some() {
        return Err(Error::bad_request(
            "client_id is not supported: other applications run their own logins",
        ));
    }
    let scope = with_single_spaces(&query.scope.unwrap_or_else(|| "atproto".to_owned()));
    let return_to = query.redirect_uri.unwrap_or_else(|| DEFAULT_RETURN.to_owned());
    check_return(&app.access.origins, &return_to)?;
    check_scope(&scope, true)?;
    let did = app.core.resolver.account(&named).await?;
    check_scope(&scope, app.service_identity.attached_account().as_ref() == Some(&did))?;
    let origin = app.access.origins.of_host(request.headers());
    let (cookie, browser) = app.access.web_sessions.login_cookie(&app.random);
    // A loopback client is redirected back to 127.0.0.1, where a cookie for localhost is not sent.
    let follows = OwnClient::of(&origin, own::SCOPES).redirect_uri.starts_with(&origin);
    let goal = FlowGoal { return_to, browser: follows.then_some(browser), grant: None };
    let sender = Sender::of(&app.access, &request);
    let url = app.sessions.authorizations.begin(&did, &origin, &scope, goal, sender.tenant()).await;
    let url = url.map_err(begin_error)?;
    Ok(Built::of(Json(LoginUrl { url: url.into() })).with(SET_COOKIE, cookie))
}

/// Checks the scope of a login, `attached`: with the attached account, which may also change its DID document.
fn check_scope(scope: &str, attached: bool) -> Result<(), Error> {
    let parsed = |text: &str| text.parse::<Scopes>().map_err(|error| Error::bad_request(error.to_string()));
    let more = if attached { own::IDENTITY_SCOPE } else { "" };
    let (requested, allowed) = (parsed(scope)?, parsed(format!("{} {more}", own::SCOPES).trim())?);
    if !requested.contains(&Scope::Atproto) || !allowed.covers(&requested) {
        return Err(Error::bad_request(format!(
            "scope must have atproto, and nothing beyond {}",
            own::SCOPES
        )));
    }
    Ok(())
}

/// Rejects redirects to other sites: only a path, or a URL on one of our origins, is allowed.
fn check_return(origins: &Origins, to: &str) -> Result<(), Error> {
    let is_path = to.starts_with('/') && !to.starts_with("//") && !to.contains('\\');
    let is_own = || Url::parse(to).is_ok_and(|url| origins.contains(&url.origin().ascii_serialization()));
    if (is_path || is_own()) && !to.chars().any(char::is_control) {
        return Ok(());
    }
    Err(Error::bad_request("redirect_uri must be a path, or a URL of this instance"))
}

/// Maps a failure to begin an authorization to a response.
pub(in crate::api) fn begin_error(error: AuthorizationError) -> Error {
    match error {
        AuthorizationError::Store(error) => Error::from(error),
        AuthorizationError::TooMany => Error::new(StatusCode::TOO_MANY_REQUESTS, error.to_string()),
        error => {
            tracing::info!(%error, "an authorization could not begin");
            Error::new(StatusCode::BAD_GATEWAY, error.to_string())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_redirects_only_to_own_pages() {
        let origins = Origins::new("https://own.example");
        for good in ["/", "/dashboard/?a=b", "https://own.example/page"] {
            assert!(check_return(&origins, good).is_ok(), "{good}");
        }
        for bad in [
            "//evil.example",
            "https://evil.example/",
            "/\\evil.example",
            "javascript:alert(1)",
            "",
            "page",
            "https://own.example@evil.example/",
            "/a\r\nset-cookie: b",
        ] {
            assert!(check_return(&origins, bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_login_requests_only_scopes_that_the_instance_declares() {
        assert!(
            check_scope("atproto", false).is_ok() && check_scope("atproto transition:generic", false).is_ok()
        );
        assert!(
            check_scope("transition:generic", false).is_err()
                && check_scope("atproto transition:email", true).is_err()
        );
        assert!(check_scope("atproto identity:*", true).is_ok());
        assert!(check_scope("atproto identity:*", false).is_err());
    }
}
