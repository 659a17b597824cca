//! `/external-auth/{plugin}/start`: the page on which a user consents to a sign-in at a service.
//!
//! The application opens it in the user's browser. It names the user, because a link that someone else made would link the
//! reader's account at the service to the wrong user. The button binds the sign-in to this browser.

use std::sync::Arc;
use std::time::Duration;

use askama::Template;
use http::StatusCode;
use http::header::{HeaderValue, REFERRER_POLICY, SET_COOKIE};

use schemars::JsonSchema;
use serde::Deserialize;

use crate::api::answer::{Built, Html, Redirect};
use crate::api::auth::redirect;
use crate::api::input::WithQuery;
use crate::api::page;
use crate::app::App;
use belvedere_protocol::atproto::Did;
use belvedere_web::http::Error;

use super::callback_url;

/// Time that the page waits for the user's handle. Without one it shows the DID only.
const HANDLE_TIME: Duration = Duration::from_secs(3);

#[derive(Template)]
#[template(path = "external_auth_start.html")]
struct StartPage<'a> {
    app_name: &'a str,
    logo: Option<String>,
    plugin: &'a str,
    handle: Option<String>,
    did: &'a str,
    collections: &'a [String],
    hosts: Option<&'a [String]>,
    state: &'a str,
    plugin_id: &'a str,
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct StateQuery {
    #[schemars(required)]
    state: Option<String>,
}

/// `GET /external-auth/{plugin}/start`: the page on which the user consents. It shows what the user consents to.
pub async fn page(app: Arc<App>, request: WithQuery<StateQuery>) -> Result<Built<Html>, Error> {
    let plugin_id = request.param("plugin");
    let state = request.parameters()?.state.unwrap_or_default();
    let view = app.accounts.view(plugin_id, &state).await?;
    let app_name = app.settings.get("app_name");
    let origin = app.access.origins.of_host(request.headers());
    let start = StartPage {
        app_name: app_name.as_deref().unwrap_or(&origin),
        logo: app.settings.logo_url(&origin),
        plugin: &view.plugin,
        handle: handle(&app, &view.did).await,
        did: view.did.as_str(),
        collections: &view.collections,
        hosts: view.hosts.as_deref(),
        state: &state,
        plugin_id,
    };
    let mut page = page::render(StatusCode::OK, &start)?;
    // With no-referrer, browsers would hide from us that the form is on our own page.
    page.headers_mut().insert(REFERRER_POLICY, HeaderValue::from_static("same-origin"));
    Ok(page.into())
}

/// The user's handle, if it belongs to them.
async fn handle(app: &App, did: &Did) -> Option<String> {
    let resolver = &app.core.resolver;
    let found = async {
        let handle = resolver.resolve(did).await.ok()?.handle()?.to_owned();
        let owner = resolver.account(&handle).await.ok()?;
        (owner == *did).then_some(handle)
    };
    tokio::time::timeout(HANDLE_TIME, found).await.ok().flatten()
}

/// `POST /external-auth/{plugin}/start`: the user consents. Redirects to the service.
pub async fn consent(app: Arc<App>, request: WithQuery<StateQuery>) -> Result<Built<Redirect>, Error> {
    // The form of another site would begin a sign-in that the user has not seen.
    if !app.access.web_sessions.is_from_own_page(request.headers()) {
        return Err(Error::forbidden("open the page of this sign-in, and use its button"));
    }
    let plugin = request.param("plugin");
    let state = request.parameters()?.state.unwrap_or_default();
    let (cookie, browser) = app.access.web_sessions.consent_cookie(request.headers(), &app.random);
    let url = app.accounts.consent(plugin, &state, &browser, callback_url(&app, plugin)).await?;
    Ok(redirect(url.as_str()).with(SET_COOKIE, cookie))
}
