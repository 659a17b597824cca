//! `POST /admin/api-clients/{id}/auth-key`: makes a key, unless the client has one.

use std::sync::Arc;

use http::StatusCode;

use super::{client, view};
use crate::access::{Admin, client_keys};
use crate::app::App;
use crate::http::{Error, Request, Response, response};
use crate::store::api_client_keys;

pub async fn handle(app: Arc<App>, _admin: Admin, request: Request) -> Result<Response, Error> {
    let client = client(&app, request.param("id")).await?;
    let key = client_keys::generate(&app.access, &client.id);
    let made = api_client_keys::create(&app.db, &key).await?;
    let status = if made { StatusCode::CREATED } else { StatusCode::OK };
    Ok(response::json(status, &view(&app, &client).await?))
}
