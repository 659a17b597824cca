//! `GET /xrpc/dev.service.listApiClients`: the caller's own, newest first.

use std::sync::Arc;

use http::StatusCode;
use serde_json::json;

use super::view::ClientView;
use crate::access::ClientUser;
use crate::app::App;
use crate::http::{Error, Request, Response, response};
use crate::store::api_clients;

pub async fn handle(app: Arc<App>, caller: ClientUser, _request: Request) -> Result<Response, Error> {
    caller.is_top_level()?;
    let rows = api_clients::list_owned(&app.db, caller.did.as_str()).await?;
    let clients: Vec<ClientView> = rows.into_iter().map(ClientView::from).collect();
    Ok(response::json(StatusCode::OK, &json!({ "clients": clients })))
}
