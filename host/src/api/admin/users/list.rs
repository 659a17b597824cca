//! `GET /admin/users`: all of them, oldest first.

use std::sync::Arc;

use http::StatusCode;

use super::view::UserView;
use crate::access::Admin;
use crate::app::App;
use crate::http::{Error, Request, Response, response};
use crate::store::users;

pub async fn handle(app: Arc<App>, _admin: Admin, _request: Request) -> Result<Response, Error> {
    let rows = users::list(&app.db).await?;
    let views: Vec<UserView> = rows.into_iter().map(UserView::from).collect();
    Ok(response::json(StatusCode::OK, &views))
}
