//! `/admin/scripts/{id}/revisions` and `/admin/scripts/deleted`: earlier bodies of scripts, also of deleted ones.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;

use crate::access::Admin;
use crate::api::admin::revisions::{self, Revisions};
use crate::api::answer::{Json, JsonResult};
use crate::app::App;
use belvedere_base::clock::Timestamp;
use belvedere_storage::store::revisions::{FullRevision, RevisionRow, Subject};
use belvedere_storage::store::script_revisions::{self, DeletedScript};
use belvedere_web::http::Request;

#[derive(Debug, Serialize, JsonSchema)]
pub struct ScriptRevision {
    revision: i64,
    saved_at: Timestamp,
    saved_by: Option<String>,
    #[schemars(extend("enum" = ["saved", "deleted"]))]
    kind: String,
    description: Option<String>,
    bytes: i64,
}

impl From<RevisionRow> for ScriptRevision {
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
#[derive(Debug, Serialize, JsonSchema)]
pub struct FullScriptRevision {
    #[serde(flatten)]
    revision: ScriptRevision,
    body: Option<String>,
}

/// `GET /admin/scripts/{id}/revisions`: the last 50 revisions of a script, newest first, without the bodies. Also of a
/// deleted one.
pub async fn list(app: Arc<App>, _admin: Admin, request: Request) -> JsonResult<Revisions<ScriptRevision>> {
    revisions::list(&app, Subject::Script, &request).await
}

/// `GET /admin/scripts/{id}/revisions/{revision}`: a revision of a script.
pub async fn get(app: Arc<App>, _admin: Admin, request: Request) -> JsonResult<FullScriptRevision> {
    let FullRevision { row, text } = revisions::get(&app, Subject::Script, &request).await?;
    Ok(Json(FullScriptRevision { revision: row.into(), body: text }))
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "DeletedScript")]
struct DeletedScriptView {
    id: String,
    revision: i64,
    deleted_at: Timestamp,
    deleted_by: Option<String>,
}

impl From<DeletedScript> for DeletedScriptView {
    fn from(row: DeletedScript) -> Self {
        Self { id: row.script_id, revision: row.revision, deleted_at: row.saved_at, deleted_by: row.saved_by }
    }
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct DeletedScripts {
    scripts: Vec<DeletedScriptView>,
}

/// `GET /admin/scripts/deleted`: the scripts that were deleted last, newest first.
pub async fn deleted(app: Arc<App>, _admin: Admin, _request: Request) -> JsonResult<DeletedScripts> {
    let rows = script_revisions::deleted(&app.db).await?;
    let scripts = rows.into_iter().map(DeletedScriptView::from).collect();
    Ok(Json(DeletedScripts { scripts }))
}
