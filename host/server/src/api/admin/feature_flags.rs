//! `/admin/feature-flags`: lists the parts of the server that an admin can switch on. `PUT
//! /admin/settings/feature.…` switches them.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;

use crate::access::Admin;
use crate::api::answer::{Json, JsonResult};
use crate::app::App;
use belvedere_instance::settings::SPACES_ENABLED;
use belvedere_web::http::Request;

/// Key, name and description of each flag.
const FLAGS: [(&str, &str, &str); 1] = [(
    SPACES_ENABLED,
    "Spaces",
    "Data that only its members may read: the methods and permissions of permissioned spaces.",
)];

#[derive(Debug, Serialize, JsonSchema)]
pub struct FeatureFlag {
    key: &'static str,
    name: &'static str,
    description: &'static str,
    enabled: bool,
}

/// `GET /admin/feature-flags`: the features that can be switched on.
pub async fn list(app: Arc<App>, _admin: Admin, _request: Request) -> JsonResult<Vec<FeatureFlag>> {
    let flag =
        |(key, name, description)| FeatureFlag { key, name, description, enabled: app.settings.flag(key) };
    Ok(Json(FLAGS.into_iter().map(flag).collect()))
}
