//! `GET /admin/settings`: every setting that has a value, and where it comes from.

use std::sync::Arc;

use http::StatusCode;
use serde::Serialize;

use crate::access::Admin;
use crate::app::App;
use crate::app::Topic;
use crate::http::{Error, Request, Response, response};
use crate::settings::Source;

#[derive(Serialize)]
struct SettingView {
    key: String,
    value: String,
    source: Source,
}

pub async fn handle(app: Arc<App>, _admin: Admin, _request: Request) -> Result<Response, Error> {
    // Another host may have changed some a moment ago.
    app.reload(&Topic::Settings).await?;
    let settings = app.settings.list().into_iter();
    let views: Vec<_> = settings.map(|(key, value, source)| SettingView { key, value, source }).collect();
    Ok(response::json(StatusCode::OK, &views))
}
