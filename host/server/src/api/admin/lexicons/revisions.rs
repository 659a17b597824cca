//! `/admin/lexicons/{id}/revisions`: the last documents of a lexicon.

use std::sync::Arc;

use http::StatusCode;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::access::Admin;
use crate::api::admin::revisions;
use crate::app::App;
use belvedere_base::clock::Timestamp;
use belvedere_storage::store::revisions::{FullRevision, RevisionRow, Subject};
use belvedere_web::http::{Error, Request, Response, response};

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
            source: row.kind,
            bytes: row.bytes,
            lexicon_json: None,
        }
    }
}

/// `GET /admin/lexicons/{id}/revisions`: newest first, without the documents.
pub async fn list(app: Arc<App>, _admin: Admin, request: Request) -> Result<Response, Error> {
    revisions::list::<RevisionView>(&app, Subject::Lexicon, &request).await
}

/// `GET /admin/lexicons/{id}/revisions/{revision}`: one with its document.
pub async fn get(app: Arc<App>, _admin: Admin, request: Request) -> Result<Response, Error> {
    let FullRevision { row, text } = revisions::get(&app, Subject::Lexicon, &request).await?;
    let lexicon_json = text.and_then(|document| RawValue::from_string(document).ok());
    Ok(response::json(StatusCode::OK, &RevisionView { lexicon_json, ..row.into() }))
}
