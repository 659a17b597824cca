//! `POST /admin/api-clients/{id}/auth-key/rotate`: a new key for new sessions; those that began with the one before go on
//! with it.

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
    api_client_keys::rotate(&app.db, &key).await?;
    Ok(response::json(StatusCode::OK, &view(&app, &client).await?))
}
