//! `/admin/plugins/{id}/reload`: loads a new version of a plugin.

use std::sync::Arc;

use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::failure::{self, Attempt};
use super::view::Summary;
use crate::access::Admin;
use crate::app::App;
use belvedere_instance::events::Event;
use belvedere_scripting::plugins::changes::Changes;
use belvedere_scripting::plugins::install::Terms;
use belvedere_scripting::plugins::shown_url;
use belvedere_web::http::{Error, Request, Response, response};

#[derive(Default, Deserialize)]
struct Body {
    /// Instead of the plugin's own; another one drops the pinned hash.
    url: Option<String>,
    sha256: Option<String>,
    accepted_capabilities: Option<Vec<String>>,
}

#[derive(Serialize)]
struct Reloaded {
    #[serde(flatten)]
    summary: Summary,
    changes: Changes,
}

/// `POST /admin/plugins/{id}/reload`: 400 `ConsentRequired` if the new version asks for more, and then the version before
/// stays, as after every error.
pub async fn handle(app: Arc<App>, admin: Admin, request: Request) -> Result<Response, Error> {
    let row = super::find(&app, request.param("id")).await?;
    let body: Body = if request.body.is_empty() { Body::default() } else { request.json()? };
    let Body { url, sha256, accepted_capabilities: accepted } = body;
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
            Ok(response::json(StatusCode::OK, &Reloaded { summary, changes }))
        }
        Err(error) => failure::answer(&app, &admin, attempt, error),
    }
}
