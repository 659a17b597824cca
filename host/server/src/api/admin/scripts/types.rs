//! `GET /admin/scripts/types`: what scripts can use, for an editor: the script API with this server's plugins, the
//! globals and a template of each kind of run, and the names of the script variables.

mod symbols;
mod triggers;

use std::collections::BTreeMap;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use self::symbols::ScriptSymbol;
use self::triggers::ScriptTrigger;
use crate::access::Admin;
use crate::api::answer::{Json, JsonResult};
use crate::api::input::WithQuery;
use crate::app::App;
use belvedere_protocol::trigger::Trigger;
use belvedere_scripting::plugins::PluginStatus;
use belvedere_scripting::scripts::annotations::{self, PluginFunction, PluginLibrary};
use belvedere_storage::store::script_variables;
use belvedere_web::http::Error;

#[derive(Debug, Serialize, JsonSchema)]
pub struct ScriptTypes {
    /// `belvedere.d.lua`, for the Lua language server.
    annotations: String,
    /// The same for each module of v3, by its name.
    modules: BTreeMap<&'static str, &'static str>,
    symbols: Vec<ScriptSymbol>,
    triggers: Vec<ScriptTrigger>,
    variables: Vec<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct TypesQuery {
    /// Only what runs of this trigger have.
    trigger: Option<String>,
}

pub async fn handle(app: Arc<App>, _admin: Admin, request: WithQuery<TypesQuery>) -> JsonResult<ScriptTypes> {
    let trigger = request.parameters()?.trigger.filter(|id| !id.is_empty());
    let trigger = trigger.map(|id| Trigger::parse(&id)).transpose();
    let trigger = trigger.map_err(|e| Error::bad_request(e.to_string()))?;
    let annotations = annotations::text(&libraries(&app));
    let mut symbols = symbols::parse(&annotations);
    if let Some(trigger) = &trigger {
        symbols.retain(|symbol| triggers::has(trigger.kind(), symbol.name()));
    }
    let variables = script_variables::list(&app.db).await?.into_iter().map(|row| row.key).collect();
    let modules = annotations::modules().into_iter().collect();
    Ok(Json(ScriptTypes { annotations, modules, symbols, triggers: triggers::all(), variables }))
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
