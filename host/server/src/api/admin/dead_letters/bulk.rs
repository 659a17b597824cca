//! `/admin/dead-letters/bulk`: dismisses, retries or reindexes many letters. A failure does not stop the rest; the
//! answer has a result for each letter.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::find;

use crate::access::Admin;
use crate::api::answer::{Json, JsonResult};
use crate::api::body::or_default;
use crate::api::bulk::BulkOutcome;
use crate::api::input::WithBody;
use crate::app::App;
use belvedere_storage::store::dead_letters::{self, DeadLetterFilter, DeadLetterRow};
use belvedere_web::http::Error;

/// Maximum letters of one request. The answer says how many are left for further requests.
const MAX_LETTERS: u32 = 1_000;

#[derive(Debug, Deserialize, JsonSchema)]
pub struct BulkBody {
    ids: Option<Vec<String>>,
    #[serde(default, deserialize_with = "or_default")]
    all: bool,
    /// Only with `all`.
    collection: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct BulkAnswer {
    /// Whether every letter succeeded.
    ok: bool,
    results: Vec<BulkOutcome>,
    /// Matching unresolved letters beyond the maximum of one request.
    remaining: i64,
}

/// The operation on each letter.
#[derive(Clone, Copy)]
enum Operation {
    Dismiss,
    Retry,
    Reindex,
}

impl Operation {
    async fn run(self, app: &App, admin: &Admin, row: &DeadLetterRow) -> Result<(), Error> {
        match self {
            Self::Dismiss => super::dismiss_one(app, admin, row).await,
            Self::Retry => super::retry_one(app, admin, row).await,
            Self::Reindex => super::reindex_one(app, admin, row).await,
        }
    }
}

/// Runs the operation on each letter that a request names: its `ids`, or with `all` every unresolved one, newest first.
async fn run_all(
    app: &App,
    admin: &Admin,
    request: &WithBody<BulkBody>,
    operation: Operation,
) -> JsonResult<BulkAnswer> {
    let body = request.json()?;
    let mut results = Vec::new();
    let mut remaining = 0;
    if body.all {
        let filter = DeadLetterFilter { collection: body.collection, resolved: Some(false), before: None };
        let rows = dead_letters::list(&app.db, &filter, MAX_LETTERS).await?;
        if let Some(last) = rows.last() {
            let older = DeadLetterFilter { before: Some(last.id), ..filter };
            remaining = dead_letters::count(&app.db, &older).await?;
        }
        for row in rows {
            results.push(BulkOutcome::new(row.id.to_string(), operation.run(app, admin, &row).await));
        }
    } else {
        let ids = body.ids.ok_or_else(|| Error::bad_request("send ids, or all: true"))?;
        if ids.len() > MAX_LETTERS as usize {
            return Err(Error::bad_request(format!("at most {MAX_LETTERS} ids at a time")));
        }
        for id in ids {
            let done = match find(app, &id).await {
                Ok(row) => operation.run(app, admin, &row).await,
                Err(error) => Err(error),
            };
            results.push(BulkOutcome::new(id, done));
        }
    }
    let ok = results.iter().all(|result| result.ok);
    Ok(Json(BulkAnswer { ok, results, remaining }))
}

/// `POST /admin/dead-letters/bulk/dismiss`: resolves several.
pub async fn dismiss(app: Arc<App>, admin: Admin, request: WithBody<BulkBody>) -> JsonResult<BulkAnswer> {
    run_all(&app, &admin, &request, Operation::Dismiss).await
}

/// `POST /admin/dead-letters/bulk/reindex`: indexes the records of several as they are at their PDSs.
pub async fn reindex(app: Arc<App>, admin: Admin, request: WithBody<BulkBody>) -> JsonResult<BulkAnswer> {
    run_all(&app, &admin, &request, Operation::Reindex).await
}

/// `POST /admin/dead-letters/bulk/retry`: runs the scripts of several again.
pub async fn retry(app: Arc<App>, admin: Admin, request: WithBody<BulkBody>) -> JsonResult<BulkAnswer> {
    run_all(&app, &admin, &request, Operation::Retry).await
}
