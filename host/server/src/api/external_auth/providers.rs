//! `GET /external-auth/providers`: the plugins that link accounts.

use std::sync::Arc;

use http::StatusCode;
use serde_json::{Value, json};

use crate::app::App;
use belvedere_web::http::{Error, Request, Response, response};

pub async fn handle(app: Arc<App>, _request: Request) -> Result<Response, Error> {
    let providers = app.accounts.providers();
    let shown: Vec<Value> = providers
        .iter()
        .map(|plugin| {
            let manifest = plugin.manifest();
            let mut shown = json!({
                "id": manifest.id,
                "name": manifest.name,
                "icon_url": manifest.icon_url,
                "auth_type": manifest.auth_type,
            });
            if let Some(schema) = &manifest.config_schema {
                shown["config_schema"] = serde_json::from_str(schema.get()).unwrap_or_default();
            }
            shown
        })
        .collect();
    Ok(response::json(StatusCode::OK, &shown))
}
