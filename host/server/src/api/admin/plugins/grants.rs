//! `/admin/plugins/{id}/grants`: changes what an installed plugin may do.

use std::sync::Arc;

use futures_util::future::Either;
use schemars::JsonSchema;
use serde::Deserialize;

use super::failure::{self, Attempt, Attempted};
use super::view::Summary;
use crate::access::Admin;
use crate::api::answer::Json;
use crate::api::input::WithBody;
use crate::app::App;
use belvedere_instance::events::Event;

#[derive(Debug, Deserialize, JsonSchema)]
pub struct PluginGrants {
    granted: Vec<String>,
}

/// `PUT /admin/plugins/{id}/grants`: grants exactly the listed permissions, of those that the plugin asks for.
pub async fn put(app: Arc<App>, admin: Admin, request: WithBody<PluginGrants>) -> Attempted<Summary> {
    let row = super::find(&app, request.param("id")).await?;
    let PluginGrants { granted } = request.json()?;
    match app.plugins.installer.set_grants(&row, &granted).await {
        Ok(row) => {
            let denied = row.requested.iter().filter(|one| !row.granted.contains(one)).cloned().collect();
            app.events.record(Event::PluginGrantsUpdated {
                actor: admin.did.to_string(),
                id: row.id.clone(),
                granted: row.granted.clone(),
                denied,
            });
            Ok(Either::Left(Json(Summary::new(&app, row))))
        }
        Err(error) => {
            failure::answer(&app, &admin, Attempt { id: Some(row.id), ..Attempt::default() }, error)
        }
    }
}
