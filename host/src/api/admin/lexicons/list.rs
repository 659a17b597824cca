//! `GET /admin/lexicons`: every lexicon, by id, without its document.

use std::sync::Arc;

use http::StatusCode;

use super::view::LexiconView;
use crate::access::Admin;
use crate::app::App;
use crate::http::{Error, Request, Response, response};
use crate::store;

pub async fn handle(app: Arc<App>, _admin: Admin, _request: Request) -> Result<Response, Error> {
    let rows = store::lexicons::list(&app.db).await?;
    let items: Vec<LexiconView> = rows.into_iter().map(LexiconView::item).collect();
    Ok(response::json(StatusCode::OK, &items))
}
