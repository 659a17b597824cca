//! `POST /admin/api-clients/{id}/auth-key/recheck`: reads the client's metadata anew, and says whether it counts.

use std::sync::Arc;

use http::StatusCode;

use super::{client, view};
use crate::access::Admin;
use crate::app::App;
use crate::http::{Error, Request, Response, response};

pub async fn handle(app: Arc<App>, _admin: Admin, request: Request) -> Result<Response, Error> {
    let client = client(&app, request.param("id")).await?;
    app.access.client_keys.forget(&client.client_id_url).await;
    Ok(response::json(StatusCode::OK, &view(&app, &client).await?))
}
