//! `/admin/plugins/{id}/reload`: loads a new version of a plugin.

use std::sync::Arc;

use futures_util::future::Either;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::failure::{self, Attempt, Attempted};
use super::view::Summary;
use crate::access::Admin;
use crate::api::answer::Json;
use crate::api::input::WithBody;
use crate::app::App;
use belvedere_instance::events::Event;
use belvedere_scripting::plugins::changes::Changes;
use belvedere_scripting::plugins::install::Terms;
use belvedere_scripting::plugins::shown_url;

#[derive(Debug, Default, Deserialize, JsonSchema)]
pub struct PluginReload {
    /// Instead of the plugin's own; another one drops the pinned hash.
    url: Option<String>,
    sha256: Option<String>,
    accepted_capabilities: Option<Vec<String>>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct ReloadedPlugin {
    #[serde(flatten)]
    summary: Summary,
    changes: Changes,
}

/// `POST /admin/plugins/{id}/reload`: installs the plugin's current version. 400 `ConsentRequired` if the new version
/// asks for more, and then the version before stays, as after every error.
pub async fn handle(
    app: Arc<App>,
    admin: Admin,
    request: WithBody<PluginReload>,
) -> Attempted<ReloadedPlugin> {
    let row = super::find(&app, request.param("id")).await?;
    let PluginReload { url, sha256, accepted_capabilities: accepted } = request.json_or_default()?;
    let attempt = Attempt { id: Some(row.id.clone()), url: url.clone().or_else(|| row.url.clone()) };
    let terms = Terms { sha256, accepted };
    match app.plugins.installer.reload(&row, url, &terms, admin.did.as_str()).await {
        Ok((row, changes)) => {
            app.events.record(Event::PluginReloaded {
                actor: Some(admin.did.to_string()),
                id: row.id.clone(),
                url: row.url.as_deref().map(shown_url),
                changes: json!(changes),
            });
            let summary = Summary::new(&app, row);
            Ok(Either::Left(Json(ReloadedPlugin { summary, changes })))
        }
        Err(error) => failure::answer(&app, &admin, attempt, error),
    }
}
