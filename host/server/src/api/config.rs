//! `GET /config`: what the dashboard and other pages need to know before anyone has logged in.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;

use crate::api::answer::{Json, JsonResult};
use crate::app::App;
use belvedere_instance::config;
use belvedere_instance::settings::{APP_NAME, SPACES_ENABLED};
use belvedere_storage::store::Backend;
use belvedere_web::http::Request;

#[derive(Debug, Serialize, JsonSchema)]
pub struct PublicConfig {
    public_url: String,
    version: &'static str,
    database_backend: Backend,
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
    #[schemars(with = "Vec<String>")]
    config_errors: [&'static str; 0],
}

#[derive(Debug, Serialize, JsonSchema)]
struct Features {
    spaces: bool,
}

pub async fn handle(app: Arc<App>, request: Request) -> JsonResult<PublicConfig> {
    let (indexing, limit) = (&app.config.indexing, app.config.rate_limit);
    let answer = PublicConfig {
        public_url: app.identity.origin.clone(),
        version: env!("CARGO_PKG_VERSION"),
        database_backend: app.db.backend(),
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
    Ok(Json(answer))
}
