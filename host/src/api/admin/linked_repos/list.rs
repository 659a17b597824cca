//! `GET /admin/linked-repos`: newest first.

use std::sync::Arc;

use http::StatusCode;
use serde_json::json;

use super::view::GrantView;
use crate::access::Admin;
use crate::app::App;
use crate::http::{Error, Request, Response, response};
use crate::store::linked_repos;

pub async fn handle(app: Arc<App>, _admin: Admin, _request: Request) -> Result<Response, Error> {
    let rows = linked_repos::list(&app.db).await?;
    let grants: Vec<GrantView> = rows.into_iter().map(GrantView::from).collect();
    Ok(response::json(StatusCode::OK, &json!({ "linked_repos": grants })))
}
