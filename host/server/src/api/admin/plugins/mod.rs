//! `/admin/plugins`: lists, installs and removes plugins.

pub mod accounts;
mod failure;
pub mod grants;
pub mod official;
pub mod preview;
pub mod reload;
pub mod resume;
pub mod secrets;
pub mod updates;
mod upload;
mod view;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::Either;
use schemars::JsonSchema;
use serde::Serialize;
use tokio::time::Instant;

use self::failure::{Attempt, Attempted};
use self::upload::PluginOrigin;
use self::view::Summary;
use crate::access::Admin;
use crate::api::answer::{Empty, EmptyResult, Json, JsonResult};
use crate::api::input::WithBody;
use crate::app::{App, Topic};
use belvedere_instance::events::Event;
use belvedere_scripting::plugins::manifest::Manifest;
use belvedere_scripting::plugins::shown_url;
use belvedere_storage::store::plugins::{self, PluginRow, PluginState};
use belvedere_web::http::{Error, Request};

pub use upload::MAX_BYTES as MAX_UPLOAD;

/// Time that a deletion waits until the plugin is gone. One with many accounts takes longer; it is out of use from the
/// beginning.
const REMOVAL_WAIT: Duration = Duration::from_secs(5);

/// The interval at which that is checked.
const REMOVAL_POLL: Duration = Duration::from_millis(50);

#[derive(Debug, Serialize, JsonSchema)]
pub struct PluginList {
    plugins: Vec<Summary>,
    /// Whether secrets can be stored: always, since a server without a key generates one.
    encryption_configured: bool,
}

/// `GET /admin/plugins`: the plugins, oldest first, then those that the configuration names and that can't be
/// installed.
pub async fn list(app: Arc<App>, _admin: Admin, _request: Request) -> JsonResult<PluginList> {
    let rows = plugins::list(&app.db).await?;
    let mut failures: BTreeMap<String, String> = app.plugins.loaded.failures();
    failures.retain(|id, _| rows.iter().all(|row| row.id != *id));
    let mut summaries: Vec<Summary> = rows.into_iter().map(|row| Summary::new(&app, row)).collect();
    summaries.extend(failures.into_iter().map(|(id, error)| Summary::failed(&app, id, error)));
    Ok(Json(PluginList { plugins: summaries, encryption_configured: true }))
}

/// `POST /admin/plugins`: installs a plugin from a URL or an upload, or replaces the one with its id. 400
/// `ConsentRequired` lists what has to be accepted or denied in `accepted_capabilities`.
pub async fn create(app: Arc<App>, admin: Admin, request: WithBody<PluginOrigin>) -> Attempted<Summary> {
    let (origin, terms) = match upload::read(&request).await {
        Ok(read) => read,
        Err(broken) => return Err(failure::unreadable(&app, &admin, broken)),
    };
    let attempt = Attempt::of(&origin);
    let url = attempt.url.clone();
    match app.plugins.installer.install(origin, &terms, admin.did.as_str()).await {
        Ok(row) => {
            let version =
                Manifest::parse(row.manifest.as_bytes()).map(|manifest| manifest.version.to_string());
            app.events.record(Event::PluginAdded {
                actor: Some(admin.did.to_string()),
                id: row.id.clone(),
                url: url.as_deref().map(shown_url),
                version: version.unwrap_or_default(),
                module_sha256: row.module_sha256.clone(),
                granted: row.granted.clone(),
            });
            Ok(Either::Left(Json(Summary::new(&app, row))))
        }
        Err(error) => failure::answer(&app, &admin, attempt, error),
    }
}

/// `DELETE /admin/plugins/{id}`: removes a plugin and unlinks its accounts. Its secrets stay, for a reinstall.
pub async fn delete(app: Arc<App>, admin: Admin, request: Request) -> EmptyResult {
    let row = find(&app, request.param("id")).await?;
    if plugins::begin_removal(&app.db, &row.id).await?.is_some() {
        // Before what may fail: it can't be undone.
        let (actor, id) = (admin.did.to_string(), row.id.clone());
        app.events.record(Event::PluginRemoved { actor, id });
        app.changed(Topic::Plugins).await?;
        app.accounts.remove_all(&row.id).await?;
    }
    app.plugins.removals.wake();
    let deadline = Instant::now() + REMOVAL_WAIT;
    let is_there = async || {
        let row = plugins::get(&app.db, &row.id).await?;
        Ok::<_, Error>(row.is_some_and(|row| row.status == PluginState::Removing))
    };
    while is_there().await? && Instant::now() < deadline {
        tokio::time::sleep(REMOVAL_POLL).await;
    }
    Ok(Empty)
}

/// An installed plugin.
///
/// # Errors
/// 404 when there is none.
async fn find(app: &App, id: &str) -> Result<PluginRow, Error> {
    plugins::get(&app.db, id).await?.ok_or_else(|| Error::not_found("plugin not found"))
}
