//! `/link/*`: the pages that the owner of a repo sees.

use std::sync::Arc;

use askama::Template;
use http::StatusCode;
use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue, REFERRER_POLICY};

use crate::api::auth::linked_repo::invited;
use crate::app::App;
use crate::http::{Error, Request, Response, response};

/// A page without scripts, in no frame, that tells nobody where it was.
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

/// `GET /link/result?status=`: how it ended.
pub async fn result(_app: Arc<App>, request: Request) -> Result<Response, Error> {
    let (title, text) = match request.query("status").as_deref() {
        Some("success") => ("Done", "Your repo is linked. You can close this page."),
        Some("expired") => {
            ("This link is no longer good", "It was used or has expired. Ask for another one.")
        }
        Some("gone") => ("This request was withdrawn", "Nothing was linked."),
        Some("mismatch") => {
            ("That was another account", "This link was made for a different account. Nothing was linked.")
        }
        Some("already_linked") => ("This account is linked already", "Nothing has changed."),
        _ => ("That did not work", "Nothing was linked. You can open the link once more and try again."),
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
struct Dead<'a> {
    title: &'a str,
    text: &'a str,
}

/// `GET /link/start?token=`: what the owner of a repo is asked for, and by whom.
pub async fn start(app: Arc<App>, request: Request) -> Result<Response, Error> {
    let token = request.query("token").unwrap_or_default();
    let Some((_, grant)) = invited(&app, &token).await? else {
        let text = "It has been used, was revoked, or has expired. Ask whoever sent it for another one.";
        return page(&Dead { title: "This link is no longer good", text });
    };
    let app_name = app.settings.get("app_name");
    page(&StartPage {
        app_name: app_name.as_deref().unwrap_or(&app.identity.origin),
        logo: app.settings.get("logo_uri"),
        reason: grant.reason,
        scopes: grant.scopes.split(' ').collect(),
        pinned: grant.handle.or(grant.did),
        token: &token,
    })
}
