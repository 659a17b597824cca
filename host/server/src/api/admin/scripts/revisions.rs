//! `/admin/scripts/{id}/revisions` and `/admin/scripts/deleted`: earlier bodies of scripts, also of deleted ones.

use std::sync::Arc;

use http::StatusCode;
use serde::Serialize;

use crate::access::Admin;
use crate::api::admin::revisions;
use crate::app::App;
use belvedere_base::clock::Timestamp;
use belvedere_storage::store::revisions::{FullRevision, RevisionRow, Subject};
use belvedere_storage::store::script_revisions::{self, DeletedScript};
use belvedere_web::http::{Error, Request, Response, response};

#[derive(Serialize)]
struct RevisionView {
    revision: i64,
    saved_at: Timestamp,
    saved_by: Option<String>,
    /// `saved` or `deleted`.
    kind: String,
    description: Option<String>,
    bytes: i64,
}

impl From<RevisionRow> for RevisionView {
    fn from(row: RevisionRow) -> Self {
        Self {
            revision: row.revision,
            saved_at: row.saved_at,
            saved_by: row.saved_by,
            kind: row.kind,
            description: row.description,
            bytes: row.bytes,
        }
    }
}

/// A revision with its body, which is null for a deletion.
#[derive(Serialize)]
struct Detail {
    #[serde(flatten)]
    revision: RevisionView,
    body: Option<String>,
}

/// `GET /admin/scripts/{id}/revisions`: newest first, without the bodies.
pub async fn list(app: Arc<App>, _admin: Admin, request: Request) -> Result<Response, Error> {
    revisions::list::<RevisionView>(&app, Subject::Script, &request).await
}

/// `GET /admin/scripts/{id}/revisions/{revision}`
pub async fn get(app: Arc<App>, _admin: Admin, request: Request) -> Result<Response, Error> {
    let FullRevision { row, text } = revisions::get(&app, Subject::Script, &request).await?;
    Ok(response::json(StatusCode::OK, &Detail { revision: row.into(), body: text }))
}

#[derive(Serialize)]
struct DeletedView {
    id: String,
    revision: i64,
    deleted_at: Timestamp,
    deleted_by: Option<String>,
}

impl From<DeletedScript> for DeletedView {
    fn from(row: DeletedScript) -> Self {
        Self { id: row.script_id, revision: row.revision, deleted_at: row.saved_at, deleted_by: row.saved_by }
    }
}

#[derive(Serialize)]
struct DeletedAnswer {
    scripts: Vec<DeletedView>,
}

/// `GET /admin/scripts/deleted`: the scripts that were deleted last, newest first.
pub async fn deleted(app: Arc<App>, _admin: Admin, _request: Request) -> Result<Response, Error> {
    let rows = script_revisions::deleted(&app.db).await?;
    let scripts = rows.into_iter().map(DeletedView::from).collect();
    Ok(response::json(StatusCode::OK, &DeletedAnswer { scripts }))
}
