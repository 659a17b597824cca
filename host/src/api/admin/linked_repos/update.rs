//! `PATCH /admin/linked-repos/{id}`: which scripts may use it. Its scopes never change: they are what was agreed to.

use std::sync::Arc;

use http::StatusCode;
use serde::Deserialize;

use super::view::GrantView;
use super::{check_scripts, grant};
use crate::access::Admin;
use crate::app::App;
use crate::http::{Error, Request, Response, response};
use crate::store::linked_repos;

#[derive(Deserialize)]
struct Body {
    scripts: Vec<String>,
}

pub async fn handle(app: Arc<App>, _admin: Admin, request: Request) -> Result<Response, Error> {
    let Body { scripts } = request.json()?;
    check_scripts(&scripts)?;
    let id = request.param("id");
    linked_repos::set_scripts(&app.db, id, &scripts).await?;
    Ok(response::json(StatusCode::OK, &GrantView::from(grant(&app, id).await?)))
}
