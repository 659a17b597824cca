//! `/admin/plugins/official`: the catalogue of plugins, as it was read the last time.

use std::sync::Arc;

use http::StatusCode;
use semver::Version;
use serde::Serialize;

use crate::access::Admin;
use crate::app::App;
use belvedere_base::clock::Timestamp;
use belvedere_scripting::plugins::catalogue::CatalogueEntry;
use belvedere_web::http::{Error, Request, Response, response};

#[derive(Serialize)]
struct CatalogueView {
    plugins: Vec<EntryView>,
    /// Null while there is no catalogue.
    last_refreshed_at: Option<Timestamp>,
}

#[derive(Serialize)]
struct EntryView {
    id: String,
    name: String,
    description: Option<String>,
    icon_url: Option<String>,
    latest_version: Option<Version>,
    manifest_url: String,
}

impl From<CatalogueEntry> for EntryView {
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

/// `GET /admin/plugins/official`: empty without `PLUGIN_CATALOGUE_URL`.
pub async fn handle(app: Arc<App>, _admin: Admin, _request: Request) -> Result<Response, Error> {
    let catalogue = &app.plugins.catalogue;
    let plugins = catalogue.entries().into_iter().map(EntryView::from).collect();
    let view = CatalogueView { plugins, last_refreshed_at: catalogue.refreshed_at() };
    Ok(response::json(StatusCode::OK, &view))
}
