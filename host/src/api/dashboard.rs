//! `/dashboard/` and `/login`: the pages on which a login ends. They say what happened and what to do next.

use std::sync::Arc;

use http::StatusCode;

use super::page::{self, Link, Notice};
use crate::app::App;
use crate::http::{Error, Request, Response};

/// How to begin a login.
const BEGIN: &str = "To log in, open /auth/login?handle=YOUR_HANDLE on this server: the answer has the URL of your own \
    server's login page.";

/// Characters of an unknown error code that are shown: codes are words.
const MAX_CODE: usize = 64;

/// `GET /dashboard/`: who is logged in.
pub async fn dashboard(app: Arc<App>, request: Request) -> Result<Response, Error> {
    let user = app.access.web_sessions.user(request.method(), request.headers(), app.clock.now()).await?;
    let Some(user) = user else {
        let link = Some(Link { to: "/login".to_owned(), text: "How to log in" });
        let text = "This browser has no session with this server, or it has ended.";
        return page::render(StatusCode::OK, &Notice { title: "You are not logged in", text, link });
    };
    let text = format!(
        "You are {}. This server has no dashboard: it is managed through its admin API, with an admin API key or with \
         this browser's session. GET /auth/me says what the session is, and POST /auth/logout ends it.",
        user.did
    );
    let link = Some(Link { to: "/auth/me".to_owned(), text: "Show my session" });
    page::render(StatusCode::OK, &Notice { title: "You are logged in", text: &text, link })
}

/// `GET /login?error=`: why a login did not succeed; without an error, how to log in.
pub async fn login(_app: Arc<App>, request: Request) -> Result<Response, Error> {
    let code = request.query("error").filter(|code| !code.is_empty());
    let (title, text) = match code.as_deref() {
        None => ("Log in", BEGIN.to_owned()),
        Some(code) => ("You are not logged in", format!("{} {BEGIN}", reason(code))),
    };
    page::render(StatusCode::OK, &Notice { title, text: &text, link: None })
}

/// What an error code of `/auth/callback` means.
fn reason(code: &str) -> String {
    let known = match code {
        "not_authorized" => {
            "Your account is not a user of this server. Ask its operator to add your DID (POST /admin/users)."
        }
        "expired" => "The login took too long, or was begun in another browser.",
        "access_denied" => "The login was declined at your own server.",
        "failed" => "Your own server did not complete the login. This server's log has the reason.",
        other => {
            let code: String = other.chars().take(MAX_CODE).collect();
            return format!("The login ended with the error “{code}”.");
        }
    };
    known.to_owned()
}
