//! `/admin/plugins/{id}/secrets`: sets the secrets of a plugin, and lists them masked.

use std::collections::BTreeMap;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::access::Admin;
use crate::api::answer::{Empty, EmptyResult, Json, JsonResult};
use crate::api::input::WithBody;
use crate::app::{App, Topic};
use belvedere_instance::config::Secret;
use belvedere_instance::events::Event;
use belvedere_scripting::plugins::manifest::secret_prefix;
use belvedere_storage::store::{plugin_secrets, plugins};
use belvedere_web::http::{Error, Request};

#[derive(Debug, Serialize, JsonSchema)]
pub struct PluginSecrets {
    plugin_id: String,
    /// By whole name.
    secrets: BTreeMap<String, String>,
}

/// `GET /admin/plugins/{id}/secrets`: the stored secrets of a plugin, masked. Those of the environment are not listed.
pub async fn get(app: Arc<App>, _admin: Admin, request: Request) -> JsonResult<PluginSecrets> {
    let plugin_id = known(&app, request.param("id")).await?;
    let secrets = app.plugins.secrets.masked(&plugin_id).await?;
    Ok(Json(PluginSecrets { plugin_id, secrets }))
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct NewSecrets {
    #[schemars(with = "BTreeMap<String, Option<String>>")]
    secrets: BTreeMap<String, Option<Secret<String>>>,
}

/// `PUT /admin/plugins/{id}/secrets`: replaces all secrets. A value that begins with eight stars keeps the stored one; an
/// empty one is removed, as is one that is left out.
pub async fn put(app: Arc<App>, admin: Admin, request: WithBody<NewSecrets>) -> EmptyResult {
    let id = known(&app, request.param("id")).await?;
    let NewSecrets { secrets } = request.json()?;
    let given: BTreeMap<String, Secret<String>> =
        secrets.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
    let sealed = app.plugins.secrets.seal(&app.random, &id, &given);
    let sealed = sealed.map_err(|error| Error::bad_request(error.to_string()))?;
    let stray = plugin_secrets::replace(&app.db, &id, &sealed, app.clock.now()).await?;
    if let Some(key) = stray {
        let text =
            format!("no secret {}{key} is stored that could be kept: send its value", secret_prefix(&id));
        return Err(Error::bad_request(text));
    }
    app.changed(Topic::Plugins).await?;
    app.events.record(Event::PluginSecretsUpdated { actor: admin.did.to_string(), id });
    Ok(Empty)
}

/// The id of a plugin that is installed, or was and left secrets behind.
///
/// # Errors
/// 404 for another.
async fn known(app: &App, id: &str) -> Result<String, Error> {
    if plugins::get(&app.db, id).await?.is_some() || !plugin_secrets::list(&app.db, id).await?.is_empty() {
        return Ok(id.to_owned());
    }
    Err(Error::not_found("plugin not found"))
}
