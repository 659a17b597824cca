//! `GET /auth/linked-repo/info?token=`: what an invite is for.

use std::sync::Arc;

use http::StatusCode;
use serde_json::json;

use super::invited;
use crate::app::App;
use crate::http::{Error, Request, Response, response};

pub async fn handle(app: Arc<App>, request: Request) -> Result<Response, Error> {
    let token = request.query("token").unwrap_or_default();
    let Some((invite, grant)) = invited(&app, &token).await? else {
        return Ok(response::json(StatusCode::OK, &json!({ "valid": false })));
    };
    let scopes: Vec<&str> = grant.scopes.split(' ').collect();
    let info = json!({
        "valid": true,
        "app_name": app.settings.get("app_name"),
        "logo_url": app.settings.get("logo_uri"),
        "scopes": scopes,
        "reason": grant.reason,
        "pinned_identifier": grant.handle.or(grant.did),
        "expires_at": invite.expires_at,
    });
    Ok(response::json(StatusCode::OK, &info))
}
