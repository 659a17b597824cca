//! `/admin/plugins/{id}/resume`: calls a plugin again that was paused because it trapped too often.

use std::sync::Arc;

use super::view::Summary;
use crate::access::Admin;
use crate::api::answer::{Json, JsonResult};
use crate::app::App;
use belvedere_instance::events::Event;
use belvedere_storage::store::plugins::{self, PluginState};
use belvedere_web::http::{Error, Request};

/// `POST /admin/plugins/{id}/resume`: lets a plugin run again that was paused because it failed too often. A plugin
/// that is not paused stays as it is.
pub async fn handle(app: Arc<App>, admin: Admin, request: Request) -> JsonResult<Summary> {
    let row = super::find(&app, request.param("id")).await?;
    let is_paused = row.status == PluginState::Paused;
    let row = plugins::resume(&app.db, &row.id).await?;
    let row = row.ok_or_else(|| Error::conflict("the plugin is being removed"))?;
    // Also when the store has no pause any more: this host may count its traps still.
    app.plugins.loader.resumed(&row.id).await?;
    if is_paused {
        let (actor, id) = (admin.did.to_string(), row.id.clone());
        app.events.record(Event::PluginResumed { actor, id });
    }
    Ok(Json(Summary::new(&app, row)))
}
