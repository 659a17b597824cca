//! `/admin/permissions`: lists the permissions and templates that can be granted.

use std::sync::Arc;

use http::StatusCode;
use serde::Serialize;

use crate::access::{Admin, Permission, Template};
use crate::app::App;
use crate::http::{Error, Request, Response, response};

#[derive(Serialize)]
struct Answer {
    permissions: Vec<PermissionView>,
    templates: Vec<TemplateView>,
}

#[derive(Serialize)]
struct PermissionView {
    key: &'static str,
    name: &'static str,
    description: &'static str,
    category: &'static str,
}

#[derive(Serialize)]
struct TemplateView {
    key: &'static str,
    label: &'static str,
    permissions: Vec<&'static str>,
}

/// Prefix of the permissions of spaces, which are not implemented, so that the permissions are not offered.
const SPACES: &str = "spaces:";

/// `GET /admin/permissions`: the permissions that can be granted, and the templates.
pub async fn list(_app: Arc<App>, _admin: Admin, _request: Request) -> Result<Response, Error> {
    let offered = |p: &Permission| !p.as_str().starts_with(SPACES);
    let answer = Answer {
        permissions: Permission::ALL
            .iter()
            .copied()
            .filter(offered)
            .map(|p| PermissionView {
                key: p.as_str(),
                name: p.name(),
                description: p.description(),
                category: p.category(),
            })
            .collect(),
        templates: Template::ALL
            .iter()
            .map(|t| TemplateView {
                key: t.as_str(),
                label: t.label(),
                permissions: t
                    .permissions()
                    .iter()
                    .copied()
                    .filter(offered)
                    .map(Permission::as_str)
                    .collect(),
            })
            .collect(),
    };
    Ok(response::json(StatusCode::OK, &answer))
}
