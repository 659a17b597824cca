//! `/admin/permissions`: lists the permissions and templates that can be granted.

use std::borrow::Cow;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;

use crate::access::{Admin, Permission, Template};
use crate::api::answer::{Json, JsonResult};
use crate::app::App;
use belvedere_instance::settings::SPACES_ENABLED;
use belvedere_web::http::Request;

#[derive(Debug, Serialize, JsonSchema)]
pub struct Permissions {
    permissions: Vec<PermissionInfo>,
    templates: Vec<TemplateInfo>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct PermissionInfo {
    key: &'static str,
    name: &'static str,
    description: Cow<'static, str>,
    category: &'static str,
}

#[derive(Debug, Serialize, JsonSchema)]
struct TemplateInfo {
    key: &'static str,
    label: &'static str,
    permissions: Vec<&'static str>,
}

/// The text for an admin who may grant it.
fn description(permission: Permission) -> Cow<'static, str> {
    if permission.is_reserved() {
        return format!("{} No endpoint of this version needs it.", permission.description()).into();
    }
    permission.description().into()
}

/// `GET /admin/permissions`: the permissions that can be granted, and the templates.
pub async fn list(app: Arc<App>, _admin: Admin, _request: Request) -> JsonResult<Permissions> {
    let has_spaces = app.settings.flag(SPACES_ENABLED);
    let answer = Permissions {
        permissions: Permission::ALL
            .iter()
            .copied()
            .filter(|p| p.is_offered(has_spaces))
            .map(|p| PermissionInfo {
                key: p.as_str(),
                name: p.name(),
                description: description(p),
                category: p.category(),
            })
            .collect(),
        templates: Template::ALL
            .iter()
            .map(|t| TemplateInfo {
                key: t.as_str(),
                label: t.label(),
                permissions: t.permissions(has_spaces).into_iter().map(Permission::as_str).collect(),
            })
            .collect(),
    };
    Ok(Json(answer))
}
