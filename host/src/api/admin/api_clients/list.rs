//! `GET /admin/api-clients`: newest first, or with `?parent_id=` the children of one.

use std::sync::Arc;

use http::StatusCode;

use super::view::ClientView;
use crate::access::Admin;
use crate::app::App;
use crate::http::{Error, Request, Response, response};
use crate::store::api_clients;

pub async fn handle(app: Arc<App>, _admin: Admin, request: Request) -> Result<Response, Error> {
    let parent = request.query("parent_id").filter(|p| !p.is_empty());
    let rows = api_clients::list(&app.db, parent.as_deref()).await?;
    let clients: Vec<ClientView> = rows.into_iter().map(ClientView::from).collect();
    Ok(response::json(StatusCode::OK, &clients))
}
