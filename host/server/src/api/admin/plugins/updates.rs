//! `/admin/plugins/{id}/check-update`: has the catalogue read, for the updates of a plugin.

use std::sync::Arc;

use super::view::Summary;
use crate::access::Admin;
use crate::api::answer::{Json, JsonResult};
use crate::app::App;
use belvedere_web::http::{Error, Request};

/// `POST /admin/plugins/{id}/check-update`: looks for a new version. 400 when the catalogue is off or can't be read. A
/// reading that takes long is not waited for: the answer has what is known.
pub async fn handle(app: Arc<App>, _admin: Admin, request: Request) -> JsonResult<Summary> {
    let row = super::find(&app, request.param("id")).await?;
    let refreshed = app.plugins.catalogue.refresh_soon().await;
    refreshed.map_err(|error| Error::bad_request(error.to_string()))?;
    Ok(Json(Summary::new(&app, row)))
}
