//! `GET /external-auth/providers`: the services at which users can link an account, by plugins.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::api::answer::{Json, JsonResult};
use crate::app::App;
use belvedere_scripting::plugins::manifest::AuthType;
use belvedere_web::http::Request;

#[derive(Debug, Serialize, JsonSchema)]
pub struct Provider {
    id: String,
    name: String,
    icon_url: Option<String>,
    auth_type: AuthType,
    #[serde(skip_serializing_if = "Option::is_none")]
    config_schema: Option<Box<RawValue>>,
}

pub async fn handle(app: Arc<App>, _request: Request) -> JsonResult<Vec<Provider>> {
    let providers = app.accounts.providers();
    let shown = providers.iter().map(|plugin| {
        let manifest = plugin.manifest();
        Provider {
            id: manifest.id.clone(),
            name: manifest.name.clone(),
            icon_url: manifest.icon_url.clone(),
            auth_type: manifest.auth_type,
            config_schema: manifest.config_schema.clone(),
        }
    });
    Ok(Json(shown.collect()))
}
