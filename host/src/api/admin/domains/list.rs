//! `GET /admin/domains`

use std::sync::Arc;

use http::StatusCode;

use super::view::DomainView;
use crate::access::Admin;
use crate::app::App;
use crate::http::{Error, Request, Response, response};
use crate::store::domains;

pub async fn handle(app: Arc<App>, _admin: Admin, _request: Request) -> Result<Response, Error> {
    let rows = domains::list(&app.db).await?;
    let domains: Vec<DomainView> = rows.into_iter().map(DomainView::from).collect();
    Ok(response::json(StatusCode::OK, &domains))
}
