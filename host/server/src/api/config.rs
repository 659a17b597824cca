//! `GET /config`: what the dashboard and other pages need to know before anyone has logged in (admin-api.md §9).

use std::sync::Arc;

use http::StatusCode;
use serde::Serialize;

use crate::app::App;
use belvedere_instance::config;
use belvedere_instance::settings::{APP_NAME, SPACES_ENABLED};
use belvedere_web::http::{Error, Request, Response, response};

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
        jetstream_url: indexing.jetstream_urls.first().map(|url| config::public_url(url)),
        relay_url: config::public_url(&indexing.relay_url),
        plc_url: config::public_url(&indexing.plc_url),
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
