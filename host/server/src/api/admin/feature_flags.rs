//! `/admin/feature-flags`: lists the parts of the server that an admin can switch on. `PUT
//! /admin/settings/feature.…` switches them.

use std::sync::Arc;

use http::StatusCode;
use serde::Serialize;

use crate::access::Admin;
use crate::app::App;
use belvedere_instance::settings::SPACES_ENABLED;
use belvedere_web::http::{Error, Request, Response, response};

/// Key, name and description of each flag.
const FLAGS: [(&str, &str, &str); 1] = [(
    SPACES_ENABLED,
    "Spaces",
    "Offers the permissions of permissioned spaces. This version answers their methods with 501.",
)];

#[derive(Serialize)]
struct FlagView {
    key: &'static str,
    name: &'static str,
    description: &'static str,
    enabled: bool,
}

/// `GET /admin/feature-flags`
pub async fn list(app: Arc<App>, _admin: Admin, _request: Request) -> Result<Response, Error> {
    let flags = FLAGS.map(|(key, name, description)| FlagView {
        key,
        name,
        description,
        enabled: app.settings.flag(key),
    });
    Ok(response::json(StatusCode::OK, &flags))
}
