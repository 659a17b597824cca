//! `/admin/lexicons/{id}/revisions`: the last documents of a lexicon.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::access::Admin;
use crate::api::admin::revisions::{self, Revisions};
use crate::api::answer::{Json, JsonResult};
use crate::app::App;
use belvedere_base::clock::Timestamp;
use belvedere_storage::store::revisions::{FullRevision, RevisionRow, Subject};
use belvedere_web::http::Request;

#[derive(Debug, Serialize, JsonSchema)]
pub struct LexiconRevision {
    revision: i64,
    saved_at: Timestamp,
    saved_by: Option<String>,
    /// `manual` or `network`.
    source: String,
    bytes: i64,
}

/// A revision with its document.
#[derive(Debug, Serialize, JsonSchema)]
pub struct FullLexiconRevision {
    #[serde(flatten)]
    revision: LexiconRevision,
    #[serde(skip_serializing_if = "Option::is_none")]
    lexicon_json: Option<Box<RawValue>>,
}

impl From<RevisionRow> for LexiconRevision {
    fn from(row: RevisionRow) -> Self {
        Self {
            revision: row.revision,
            saved_at: row.saved_at,
            saved_by: row.saved_by,
            source: row.kind,
            bytes: row.bytes,
        }
    }
}

/// `GET /admin/lexicons/{id}/revisions`: the last 50 revisions of a lexicon, newest first, without the documents.
pub async fn list(app: Arc<App>, _admin: Admin, request: Request) -> JsonResult<Revisions<LexiconRevision>> {
    revisions::list(&app, Subject::Lexicon, &request).await
}

/// `GET /admin/lexicons/{id}/revisions/{revision}`: a revision of a lexicon with its document.
pub async fn get(app: Arc<App>, _admin: Admin, request: Request) -> JsonResult<FullLexiconRevision> {
    let FullRevision { row, text } = revisions::get(&app, Subject::Lexicon, &request).await?;
    let lexicon_json = text.and_then(|document| RawValue::from_string(document).ok());
    Ok(Json(FullLexiconRevision { revision: row.into(), lexicon_json }))
}
