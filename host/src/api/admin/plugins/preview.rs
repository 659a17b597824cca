//! `/admin/plugins/preview`: what a plugin is and asks for, before anything of it is stored.

use std::sync::Arc;

use http::StatusCode;

use super::failure::{self, Attempt};
use super::upload;
use super::view::PreviewView;
use crate::access::Admin;
use crate::app::App;
use crate::http::{Error, Request, Response, response};
use crate::plugins::install::Origin;

/// `POST /admin/plugins/preview`: takes the same bodies as the installation.
pub async fn handle(app: Arc<App>, admin: Admin, request: Request) -> Result<Response, Error> {
    let (origin, terms) = upload::read(&request).await?;
    let url = match &origin {
        Origin::Url(url) => Some(url.clone()),
        Origin::Upload { .. } => None,
    };
    match app.plugins.installer.preview(origin, &terms).await {
        Ok(preview) => Ok(response::json(StatusCode::OK, &PreviewView::from(preview))),
        Err(error) => failure::answer(&app, &admin, Attempt { id: None, url }, error),
    }
}
