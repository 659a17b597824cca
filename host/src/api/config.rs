//! `GET /config`: what the dashboard and other pages need to know before anyone has logged in (admin-api.md §9).

use std::sync::Arc;

use http::StatusCode;
use serde::Serialize;
use url::Url;

use crate::app::App;
use crate::http::{Error, Request, Response, response};
use crate::settings::{APP_NAME, SPACES_ENABLED};

#[derive(Serialize)]
struct Answer<'a> {
    public_url: &'a str,
    version: &'static str,
    database_backend: &'static str,
    /// The first of the Jetstream servers; null when the server follows none.
    jetstream_url: Option<String>,
    relay_url: String,
    plc_url: String,
    default_rate_limit_capacity: u32,
    default_rate_limit_refill_rate: f64,
    app_name: Option<String>,
    logo_url: Option<String>,
    features: Features,
    /// False before the first login, which makes its account the super user.
    has_users: bool,
    /// Always empty: a server with an invalid configuration does not start.
    #[serde(rename = "configErrors")]
    config_errors: [&'static str; 0],
}

#[derive(Serialize)]
struct Features {
    spaces: bool,
}

pub async fn handle(app: Arc<App>, request: Request) -> Result<Response, Error> {
    let (indexing, limit) = (&app.config.indexing, app.config.rate_limit);
    let answer = Answer {
        public_url: &app.identity.origin,
        version: env!("CARGO_PKG_VERSION"),
        database_backend: app.db.backend().as_str(),
        jetstream_url: indexing.jetstream_urls.first().map(|url| public(url)),
        relay_url: public(&indexing.relay_url),
        plc_url: public(&indexing.plc_url),
        default_rate_limit_capacity: limit.capacity,
        default_rate_limit_refill_rate: limit.refill_rate,
        app_name: app.settings.get(APP_NAME),
        logo_url: app.settings.logo_url(&app.access.origins.of_host(request.headers())),
        features: Features { spaces: app.settings.flag(SPACES_ENABLED) },
        has_users: app.access.users.exist(&app.access).await?,
        config_errors: [],
    };
    Ok(response::json(StatusCode::OK, &answer))
}

/// The URL without what may be secret: a password, and a query with a token.
pub(super) fn public(url: &str) -> String {
    let Ok(mut url) = Url::parse(url) else { return String::new() };
    // Fails only for URLs that have no host, and then there is no password either.
    let _ = url.set_username("").and_then(|()| url.set_password(None));
    url.set_query(None);
    url.set_fragment(None);
    url.as_str().trim_end_matches('/').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_in_urls_are_not_public() {
        assert_eq!(
            public("wss://me:secret@stream.example/subscribe?token=x#y"),
            "wss://stream.example/subscribe"
        );
        assert_eq!(public("https://plc.directory/"), "https://plc.directory");
        assert_eq!(public("no url"), "");
    }
}
