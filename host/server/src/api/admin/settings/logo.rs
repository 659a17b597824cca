//! `/admin/settings/logo`: stores the logo for consent screens and the dashboard, which `/settings/logo` serves.

use std::sync::Arc;

use http::HeaderValue;
use http::header::CONTENT_TYPE;
use schemars::{Schema, SchemaGenerator};
use serde_json::json;

use crate::access::Admin;
use crate::api::answer::{Empty, EmptyResult};
use crate::api::input::Input;
use crate::app::{App, Topic};
use belvedere_instance::events::Event;
use belvedere_instance::settings::logo;
use belvedere_storage::store::settings;
use belvedere_web::http::{Error, Request};

/// A request whose body is an image.
#[derive(Debug)]
pub struct LogoUpload(Request);

impl From<Request> for LogoUpload {
    fn from(request: Request) -> Self {
        Self(request)
    }
}

impl Input for LogoUpload {
    fn body(schemas: &mut SchemaGenerator) -> Option<(&'static str, Schema)> {
        Some(("image/*", schemas.subschema_for::<String>()))
    }
}

/// `PUT /admin/settings/logo`: stores the image in the body, with the `Content-Type` of the request.
pub async fn put(app: Arc<App>, admin: Admin, LogoUpload(request): LogoUpload) -> EmptyResult {
    let kind = request.headers().get(CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
    let kind = std::str::from_utf8(kind).unwrap_or_default().trim().to_ascii_lowercase();
    if !logo::is_image(&kind) {
        return Err(Error::bad_request("the Content-Type must be that of an image, like image/png"));
    }
    if request.body.is_empty() {
        return Err(Error::bad_request("the body must be the image"));
    }
    let text = logo::to_text(&kind, &request.body);
    settings::set(&app.db, logo::KEY, &text, app.clock.now()).await?;
    app.changed(Topic::Settings).await?;
    app.events.record(Event::SettingUpdated {
        actor: admin.did.to_string(),
        key: logo::KEY.to_owned(),
        detail: json!({ "content_type": kind, "size_bytes": request.body.len() }),
    });
    Ok(Empty)
}

/// `DELETE /admin/settings/logo`: removes the logo. 204 also when none is stored.
pub async fn delete(app: Arc<App>, admin: Admin, _request: Request) -> EmptyResult {
    if settings::delete(&app.db, logo::KEY).await? {
        app.changed(Topic::Settings).await?;
        let (actor, key) = (admin.did.to_string(), logo::KEY.to_owned());
        app.events.record(Event::SettingDeleted { actor, key });
    }
    Ok(Empty)
}
