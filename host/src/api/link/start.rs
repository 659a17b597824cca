//! `GET /link/start?token=`: what the owner of a repo is asked for, and by whom.

use std::sync::Arc;

use askama::Template;

use super::page;
use crate::api::auth::linked_repo::invited;
use crate::app::App;
use crate::http::{Error, Request, Response};

#[derive(Template)]
#[template(path = "link_start.html")]
struct Page<'a> {
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

pub async fn handle(app: Arc<App>, request: Request) -> Result<Response, Error> {
    let token = request.query("token").unwrap_or_default();
    let Some((_, grant)) = invited(&app, &token).await? else {
        let text = "It has been used, was revoked, or has expired. Ask whoever sent it for another one.";
        return page(&Dead { title: "This link is no longer good", text });
    };
    let app_name = app.settings.get("app_name");
    page(&Page {
        app_name: app_name.as_deref().unwrap_or(&app.identity.origin),
        logo: app.settings.get("logo_uri"),
        reason: grant.reason,
        scopes: grant.scopes.split(' ').collect(),
        pinned: grant.handle.or(grant.did),
        token: &token,
    })
}
