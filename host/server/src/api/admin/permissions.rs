//! `/admin/permissions`: lists the permissions and templates that can be granted.

use std::borrow::Cow;
use std::sync::Arc;

use http::StatusCode;
use serde::Serialize;

use crate::access::{Admin, Permission, Template};
use crate::app::App;
use belvedere_instance::settings::SPACES_ENABLED;
use belvedere_web::http::{Error, Request, Response, response};

#[derive(Serialize)]
struct Answer {
    permissions: Vec<PermissionView>,
    templates: Vec<TemplateView>,
}

#[derive(Serialize)]
struct PermissionView {
    key: &'static str,
    name: &'static str,
    description: Cow<'static, str>,
    category: &'static str,
}

#[derive(Serialize)]
struct TemplateView {
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
pub async fn list(app: Arc<App>, _admin: Admin, _request: Request) -> Result<Response, Error> {
    let has_spaces = app.settings.flag(SPACES_ENABLED);
    let answer = Answer {
        permissions: Permission::ALL
            .iter()
            .copied()
            .filter(|p| p.is_offered(has_spaces))
            .map(|p| PermissionView {
                key: p.as_str(),
                name: p.name(),
                description: description(p),
                category: p.category(),
            })
            .collect(),
        templates: Template::ALL
            .iter()
            .map(|t| TemplateView {
                key: t.as_str(),
                label: t.label(),
                permissions: t.permissions(has_spaces).into_iter().map(Permission::as_str).collect(),
            })
            .collect(),
    };
    Ok(response::json(StatusCode::OK, &answer))
}
