//! `/admin/plugins/preview`: what a plugin is and asks for, before anything of it is stored.

use std::sync::Arc;

use futures_util::future::Either;

use super::failure::{self, Attempt, Attempted};
use super::upload::{self, PluginOrigin};
use super::view::PluginPreview;
use crate::access::Admin;
use crate::api::answer::Json;
use crate::api::input::WithBody;
use crate::app::App;
use belvedere_scripting::plugins::CompileLimits;

/// `POST /admin/plugins/preview`: what installing a plugin would ask for. Takes the same bodies as the installation.
/// Reads the module without compiling it, so what it says of itself is compared with the manifest only when it is
/// installed.
pub async fn handle(
    app: Arc<App>,
    admin: Admin,
    request: WithBody<PluginOrigin>,
) -> Attempted<PluginPreview> {
    let (origin, terms) = match upload::read(&request).await {
        Ok(read) => read,
        Err(broken) => return Err(failure::unreadable(&app, &admin, broken)),
    };
    let attempt = Attempt::of(&origin);
    match app.plugins.installer.preview(origin, &terms).await {
        Ok(preview) => {
            let limits = CompileLimits::beside(app.config.memory.limit);
            Ok(Either::Left(Json(PluginPreview::of(preview, limits))))
        }
        Err(error) => failure::answer(&app, &admin, attempt, error),
    }
}
