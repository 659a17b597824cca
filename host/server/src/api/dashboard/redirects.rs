//! Redirects to the dashboard. Relative, so that they work behind a proxy that serves the instance below a path.

use std::sync::Arc;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use crate::api::answer::{Built, Redirect};
use crate::api::auth::redirect;
use crate::app::App;
use belvedere_web::http::{Error, Request};

/// Characters of an error code that are passed on: codes are words.
const MAX_CODE: usize = 64;

/// `GET /` and `GET /dashboard`.
pub async fn to_dashboard(_app: Arc<App>, _request: Request) -> Result<Built<Redirect>, Error> {
    Ok(redirect("dashboard/"))
}

/// `GET /login?error=`: the dashboard's login, where a login that did not succeed ends too.
pub async fn login(_app: Arc<App>, request: Request) -> Result<Built<Redirect>, Error> {
    let code: String = request.query("error").unwrap_or_default().chars().take(MAX_CODE).collect();
    if code.is_empty() {
        return Ok(redirect("dashboard/#/login"));
    }
    Ok(redirect(&format!("dashboard/#/login?error={}", utf8_percent_encode(&code, NON_ALPHANUMERIC))))
}
