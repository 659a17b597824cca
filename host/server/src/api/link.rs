//! `/link/*`: renders the pages that the owner of a repo sees while linking it.

use std::sync::Arc;

use askama::Template;
use http::StatusCode;

use super::page::{self, Notice};
use crate::api::auth::linked_repo::{find_invite, invalid_link};
use crate::app::App;
use belvedere_web::http::{Error, Request, Response};

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
    page::render(StatusCode::OK, &Notice { title, text, link: None })
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

/// `GET /link/start?token=`: shows the owner of a repo which access is requested, and by which instance.
pub async fn start(app: Arc<App>, request: Request) -> Result<Response, Error> {
    let token = request.query("token").unwrap_or_default();
    let (_, grant) = find_invite(&app, &token).await?.ok_or_else(invalid_link)?;
    let app_name = app.settings.get("app_name");
    let origin = app.access.origins.of_host(request.headers());
    let start = StartPage {
        app_name: app_name.as_deref().unwrap_or(&origin),
        logo: app.settings.logo_url(&origin),
        reason: grant.reason,
        scopes: grant.scopes.split(' ').collect(),
        pinned: grant.handle.or(grant.did),
        token: &token,
    };
    page::render(StatusCode::OK, &start)
}
