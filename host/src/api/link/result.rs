//! `GET /link/result?status=`: how it ended.

use std::sync::Arc;

use askama::Template;

use super::page;
use crate::app::App;
use crate::http::{Error, Request, Response};

#[derive(Template)]
#[template(path = "link_result.html")]
struct Page {
    title: &'static str,
    text: &'static str,
}

pub async fn handle(_app: Arc<App>, request: Request) -> Result<Response, Error> {
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
    page(&Page { title, text })
}
