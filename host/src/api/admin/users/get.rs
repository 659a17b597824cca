//! `GET /admin/users/{id}`

use std::sync::Arc;

use http::StatusCode;

use super::not_found;
use super::view::UserView;
use crate::access::Admin;
use crate::app::App;
use crate::http::{Error, Request, Response, response};
use crate::store::users;

pub async fn handle(app: Arc<App>, _admin: Admin, request: Request) -> Result<Response, Error> {
    let row = users::get(&app.db, request.param("id")).await?.ok_or_else(not_found)?;
    Ok(response::json(StatusCode::OK, &UserView::from(row)))
}
