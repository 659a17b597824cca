//! `/admin/plugins/preview`: what a plugin is and asks for, before anything of it is stored.

use std::sync::Arc;

use http::StatusCode;

use super::failure::{self, Attempt};
use super::upload;
use super::view::PreviewView;
use crate::access::Admin;
use crate::app::App;
use belvedere_scripting::plugins::CompileLimits;
use belvedere_web::http::{Error, Request, Response, response};

/// `POST /admin/plugins/preview`: takes the same bodies as the installation. Reads the module without compiling it, so
/// what it says of itself is compared with the manifest only when it is installed.
pub async fn handle(app: Arc<App>, admin: Admin, request: Request) -> Result<Response, Error> {
    let (origin, terms) = match upload::read(&request).await {
        Ok(read) => read,
        Err(broken) => return Err(failure::unreadable(&app, &admin, broken)),
    };
    let attempt = Attempt::of(&origin);
    match app.plugins.installer.preview(origin, &terms).await {
        Ok(preview) => {
            let limits = CompileLimits::beside(app.config.memory.limit);
            Ok(response::json(StatusCode::OK, &PreviewView::of(preview, limits)))
        }
        Err(error) => failure::answer(&app, &admin, attempt, error),
    }
}
