//! `GET /auth/me`: who is logged in, and whether as one of the admin users.

use std::sync::Arc;

use http::StatusCode;
use serde_json::json;

use crate::app::App;
use crate::http::{Error, Request, Response, response};

pub async fn handle(app: Arc<App>, request: Request) -> Result<Response, Error> {
    let user = app.access.web_sessions.user(request.method(), request.headers(), app.clock.now()).await?;
    let user = user.ok_or_else(|| Error::unauthorized("not authenticated"))?;
    // Before there is any user, the first to come becomes the super user.
    let is_admin = app.access.users.may_log_in(&app.access, &user.did).await?;
    Ok(response::json(StatusCode::OK, &json!({ "did": user.did.as_str(), "is_admin": is_admin })))
}
