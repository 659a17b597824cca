//! `GET /admin/scripts/types`: what an editor completes: the script API with this server's plugins, the globals and a
//! template of each kind of run, and the names of the script variables.

mod symbols;
mod triggers;

use std::sync::Arc;

use http::StatusCode;
use serde::Serialize;

use self::symbols::Symbol;
use self::triggers::TriggerView;
use crate::access::Admin;
use crate::app::App;
use belvedere_protocol::trigger::Trigger;
use belvedere_scripting::plugins::PluginStatus;
use belvedere_scripting::scripts::annotations::{self, PluginFunction, PluginLibrary};
use belvedere_storage::store::script_variables;
use belvedere_web::http::{Error, Request, Response, response};

#[derive(Serialize)]
struct Answer {
    /// `belvedere.d.lua`, for the Lua language server.
    annotations: String,
    symbols: Vec<Symbol>,
    triggers: Vec<TriggerView>,
    variables: Vec<String>,
}

pub async fn handle(app: Arc<App>, _admin: Admin, request: Request) -> Result<Response, Error> {
    let trigger = request.query("trigger").filter(|id| !id.is_empty());
    let trigger = trigger.map(|id| Trigger::parse(&id)).transpose();
    let trigger = trigger.map_err(|e| Error::bad_request(e.to_string()))?;
    let annotations = annotations::text(&libraries(&app));
    let mut symbols = symbols::parse(&annotations);
    if let Some(trigger) = &trigger {
        symbols.retain(|symbol| triggers::has(trigger.kind(), symbol.name()));
    }
    let variables = script_variables::list(&app.db).await?.into_iter().map(|row| row.key).collect();
    let answer = Answer { annotations, symbols, triggers: triggers::all(), variables };
    Ok(response::json(StatusCode::OK, &answer))
}

/// The plugins whose functions scripts can call.
fn libraries(app: &App) -> Vec<PluginLibrary> {
    let usable = |status: &PluginStatus| *status != PluginStatus::Removing;
    let plugins = app.plugins.loaded.all().into_iter().filter(|plugin| usable(&plugin.status));
    plugins
        .map(|plugin| PluginLibrary {
            id: plugin.manifest.id.clone(),
            version: plugin.manifest.version.to_string(),
            functions: plugin
                .functions
                .iter()
                .map(|function| PluginFunction {
                    name: function.name.clone(),
                    params: function.params.clone(),
                    help: function.help.clone(),
                })
                .collect(),
        })
        .collect()
}
