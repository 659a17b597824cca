//! `GET /admin/scripts`: every script by id, or with `?suffix=` those bound to one NSID or job type.

use std::sync::Arc;

use http::StatusCode;

use super::view::ScriptView;
use crate::access::Admin;
use crate::app::App;
use crate::http::{Error, Request, Response, response};
use crate::store::scripts;

pub async fn handle(app: Arc<App>, _admin: Admin, request: Request) -> Result<Response, Error> {
    let suffix = request.query("suffix").filter(|s| !s.is_empty());
    let rows = scripts::list(&app.db, suffix.as_deref()).await?;
    let items: Vec<ScriptView> = rows.into_iter().map(ScriptView::from).collect();
    Ok(response::json(StatusCode::OK, &items))
}
