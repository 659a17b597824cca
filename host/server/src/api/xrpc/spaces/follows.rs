//! `follow`, `unfollow`: copies of spaces of other hosts.

use std::sync::Arc;

use http::StatusCode;
use serde::Deserialize;
use serde_json::json;

use super::input;
use crate::app::App;
use belvedere_instance::spaces::Viewer;
use belvedere_protocol::spaces::SpaceUri;
use belvedere_web::http::{Error, Request, Response, response};

#[derive(Deserialize)]
struct Body {
    #[serde(deserialize_with = "input::text")]
    space: SpaceUri,
}

/// `POST follow`: copies a space of another host, as long as it gives the caller credentials.
pub async fn follow(app: Arc<App>, viewer: Viewer, request: Request) -> Result<Response, Error> {
    let body: Body = input::body(&request)?;
    app.spaces.follow(&body.space, &viewer).await?;
    Ok(response::json(StatusCode::OK, &json!({ "success": true })))
}

/// `POST unfollow`
pub async fn unfollow(app: Arc<App>, viewer: Viewer, request: Request) -> Result<Response, Error> {
    let body: Body = input::body(&request)?;
    let was_followed = app.spaces.unfollow(&body.space, &viewer).await?;
    Ok(response::json(StatusCode::OK, &json!({ "removed": u8::from(was_followed) })))
}
