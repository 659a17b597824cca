//! `GET /admin/dead-letters`: newest first.

use std::sync::Arc;

use http::StatusCode;
use serde::Serialize;

use super::view::LetterView;
use crate::access::Admin;
use crate::api::paging;
use crate::app::App;
use crate::http::{Error, Request, Response, response};
use crate::store::dead_letters::{self, LetterFilter};

#[derive(Serialize)]
struct Answer {
    dead_letters: Vec<LetterView>,
    /// Only when there are more.
    #[serde(skip_serializing_if = "Option::is_none")]
    cursor: Option<String>,
}

pub async fn handle(app: Arc<App>, _admin: Admin, request: Request) -> Result<Response, Error> {
    let limit = paging::limit(&request, paging::LOGS)?;
    let before = request.query("cursor").map(|cursor| cursor.parse()).transpose();
    let before = before.map_err(|_| Error::bad_request("cursor must be the cursor of an earlier answer"))?;
    let filter = LetterFilter { before, ..super::filter(&request) };
    let mut rows = dead_letters::list(&app.db, &filter, limit + 1).await?;
    let more = rows.len() > limit as usize;
    rows.truncate(limit as usize);
    let cursor = rows.last().filter(|_| more).map(|row| row.id.to_string());
    let dead_letters = rows.into_iter().map(LetterView::from).collect();
    Ok(response::json(StatusCode::OK, &Answer { dead_letters, cursor }))
}
