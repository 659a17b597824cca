//! `GET /admin/lexicons/{id}`: one lexicon with its document.

use std::sync::Arc;

use http::StatusCode;

use super::view::LexiconView;
use crate::access::Admin;
use crate::app::App;
use crate::http::{Error, Request, Response, response};
use crate::store;

pub async fn handle(app: Arc<App>, _admin: Admin, request: Request) -> Result<Response, Error> {
    let row = store::lexicons::get(&app.db, request.param("id"))
        .await?
        .ok_or_else(|| Error::not_found("lexicon not found"))?;
    Ok(response::json(StatusCode::OK, &LexiconView::full(row)))
}
