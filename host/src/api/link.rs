//! `/link/*`: renders the pages that the owner of a repo sees while linking it.

use std::sync::Arc;

use askama::Template;
use http::StatusCode;
use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue, REFERRER_POLICY};

use crate::api::auth::linked_repo::find_invite;
use crate::app::App;
use crate::http::{Error, Request, Response, response};

/// A page that runs no scripts, can't be framed and sends no referrer.
fn page(template: &impl Template) -> Result<Response, Error> {
    let html = template.render().map_err(Error::internal)?;
    let mut answer = response::text(StatusCode::OK, html);
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    let policy = "default-src 'none'; style-src 'unsafe-inline'; img-src https: http: data:; frame-ancestors 'none'; \
                  base-uri 'none'";
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy));
    Ok(answer)
}

#[derive(Template)]
#[template(path = "link_result.html")]
struct ResultPage {
    title: &'static str,
    text: &'static str,
}

/// `GET /link/result?status=`: whether the repo was linked.
pub async fn result(_app: Arc<App>, request: Request) -> Result<Response, Error> {
    let (title, text) = match request.query("status").as_deref() {
        Some("success") => ("Done", "Your repo is linked. You can close this page."),
        Some("expired") => {
            ("This link is no longer valid", "It was used or has expired. Ask for another one.")
        }
        Some("gone") => ("This request was withdrawn", "Nothing was linked."),
        Some("mismatch") => {
            ("That was another account", "This link was made for a different account. Nothing was linked.")
        }
        Some("already_linked") => ("This account is already linked", "Nothing has changed."),
        _ => ("That did not work", "Nothing was linked. You can open the link again and retry."),
    };
    page(&ResultPage { title, text })
}

#[derive(Template)]
#[template(path = "link_start.html")]
struct StartPage<'a> {
    app_name: &'a str,
    logo: Option<String>,
    reason: Option<String>,
    scopes: Vec<&'a str>,
    pinned: Option<String>,
    token: &'a str,
}

#[derive(Template)]
#[template(path = "link_result.html")]
struct InvalidLinkPage<'a> {
    title: &'a str,
    text: &'a str,
}

/// `GET /link/start?token=`: shows the owner of a repo which access is requested, and by which instance.
pub async fn start(app: Arc<App>, request: Request) -> Result<Response, Error> {
    let token = request.query("token").unwrap_or_default();
    let Some((_, grant)) = find_invite(&app, &token).await? else {
        let text = "It has been used, was revoked, or has expired. Ask the sender for another one.";
        return page(&InvalidLinkPage { title: "This link is no longer valid", text });
    };
    let app_name = app.settings.get("app_name");
    let origin = app.access.origins.of_host(request.headers());
    page(&StartPage {
        app_name: app_name.as_deref().unwrap_or(&origin),
        logo: app.settings.logo_url(&origin),
        reason: grant.reason,
        scopes: grant.scopes.split(' ').collect(),
        pinned: grant.handle.or(grant.did),
        token: &token,
    })
}
