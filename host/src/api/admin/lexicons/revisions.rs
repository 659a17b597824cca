//! `/admin/lexicons/{id}/revisions`: the last documents of a lexicon.

use std::sync::Arc;

use http::StatusCode;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::access::Admin;
use crate::app::App;
use crate::clock::Timestamp;
use crate::http::{Error, Request, Response, response};
use crate::store::lexicon_revisions::{self, FullRevision, RevisionRow};

#[derive(Serialize)]
struct RevisionView {
    revision: i64,
    saved_at: Timestamp,
    saved_by: Option<String>,
    /// `manual` or `network`.
    source: String,
    bytes: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    lexicon_json: Option<Box<RawValue>>,
}

impl From<RevisionRow> for RevisionView {
    fn from(row: RevisionRow) -> Self {
        Self {
            revision: row.revision,
            saved_at: row.saved_at,
            saved_by: row.saved_by,
            source: row.source,
            bytes: row.bytes,
            lexicon_json: None,
        }
    }
}

#[derive(Serialize)]
struct Answer {
    revisions: Vec<RevisionView>,
}

/// `GET /admin/lexicons/{id}/revisions`: newest first, without the documents.
pub async fn list(app: Arc<App>, _admin: Admin, request: Request) -> Result<Response, Error> {
    let rows = lexicon_revisions::list(&app.db, request.param("id")).await?;
    if rows.is_empty() {
        return Err(Error::not_found("lexicon not found"));
    }
    let revisions = rows.into_iter().map(RevisionView::from).collect();
    Ok(response::json(StatusCode::OK, &Answer { revisions }))
}

/// `GET /admin/lexicons/{id}/revisions/{revision}`: one with its document.
pub async fn get(app: Arc<App>, _admin: Admin, request: Request) -> Result<Response, Error> {
    let not_found = || Error::not_found("the lexicon has no such revision");
    let revision = request.param("revision").parse().map_err(|_| not_found())?;
    let found = lexicon_revisions::get(&app.db, request.param("id"), revision).await?;
    let FullRevision { row, lexicon_json } = found.ok_or_else(not_found)?;
    let lexicon_json = RawValue::from_string(lexicon_json).ok();
    Ok(response::json(StatusCode::OK, &RevisionView { lexicon_json, ..row.into() }))
}
