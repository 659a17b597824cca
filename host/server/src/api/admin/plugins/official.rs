//! `/admin/plugins/official`: the catalogue of plugins, as it was read the last time.

use std::sync::Arc;

use schemars::JsonSchema;
use semver::Version;
use serde::Serialize;

use crate::access::Admin;
use crate::api::answer::{Json, JsonResult};
use crate::app::App;
use belvedere_base::clock::Timestamp;
use belvedere_scripting::plugins::catalogue::CatalogueEntry;
use belvedere_web::http::Request;

#[derive(Debug, Serialize, JsonSchema)]
pub struct Catalogue {
    plugins: Vec<CataloguePlugin>,
    /// Null while there is no catalogue.
    last_refreshed_at: Option<Timestamp>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct CataloguePlugin {
    id: String,
    name: String,
    description: Option<String>,
    icon_url: Option<String>,
    #[schemars(with = "Option<String>")]
    latest_version: Option<Version>,
    manifest_url: String,
}

impl From<CatalogueEntry> for CataloguePlugin {
    fn from(entry: CatalogueEntry) -> Self {
        Self {
            latest_version: entry.releases.into_iter().next().map(|release| release.version),
            id: entry.id,
            name: entry.name,
            description: entry.description,
            icon_url: entry.icon_url,
            manifest_url: entry.manifest_url,
        }
    }
}

/// `GET /admin/plugins/official`: the plugins of the catalogue. Empty without `PLUGIN_CATALOGUE_URL`.
pub async fn handle(app: Arc<App>, _admin: Admin, _request: Request) -> JsonResult<Catalogue> {
    let catalogue = &app.plugins.catalogue;
    let plugins = catalogue.entries().into_iter().map(CataloguePlugin::from).collect();
    let view = Catalogue { plugins, last_refreshed_at: catalogue.refreshed_at() };
    Ok(Json(view))
}
