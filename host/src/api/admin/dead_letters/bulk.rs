//! `/admin/dead-letters/bulk`: the same for many letters. One that fails does not stop the others; the answer says what
//! became of each.

use std::sync::Arc;

use http::StatusCode;
use serde::{Deserialize, Serialize};

use super::find;

use crate::access::Admin;
use crate::app::App;
use crate::http::{Error, Request, Response, response};
use crate::store::dead_letters::{self, LetterFilter, LetterRow};

/// Letters that one request works on. More are done by asking again: the answer says how many are left.
const MOST: u32 = 1_000;

#[derive(Deserialize)]
struct Asked {
    ids: Option<Vec<String>>,
    #[serde(default)]
    all: bool,
    /// Only with `all`.
    collection: Option<String>,
}

#[derive(Serialize)]
struct Answer {
    /// Whether all went well.
    ok: bool,
    results: Vec<Outcome>,
    /// Unresolved letters that were asked for and not reached.
    remaining: i64,
}

#[derive(Serialize)]
struct Outcome {
    id: String,
    ok: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// What is done to each.
#[derive(Clone, Copy)]
enum Work {
    Dismiss,
    Retry,
    Reindex,
}

impl Work {
    async fn on(self, app: &App, admin: &Admin, row: &LetterRow) -> Result<(), Error> {
        match self {
            Self::Dismiss => super::dismiss_one(app, admin, row).await,
            Self::Retry => super::retry_one(app, admin, row).await,
            Self::Reindex => super::reindex_one(app, admin, row).await,
        }
    }
}

/// Works on each letter that a request names: its `ids`, or with `all` every unresolved one, oldest last.
async fn each(app: &App, admin: &Admin, request: &Request, work: Work) -> Result<Response, Error> {
    let asked: Asked = request.json()?;
    let mut results = Vec::new();
    let mut remaining = 0;
    if asked.all {
        let filter = LetterFilter { collection: asked.collection, resolved: Some(false), before: None };
        let rows = dead_letters::list(&app.db, &filter, MOST).await?;
        if let Some(last) = rows.last() {
            let older = LetterFilter { before: Some(last.id), ..filter };
            remaining = dead_letters::count(&app.db, &older).await?;
        }
        for row in rows {
            results.push(outcome(row.id.to_string(), work.on(app, admin, &row).await));
        }
    } else {
        let ids = asked.ids.ok_or_else(|| Error::bad_request("give ids, or all: true"))?;
        if ids.len() > MOST as usize {
            return Err(Error::bad_request(format!("at most {MOST} ids at a time")));
        }
        for id in ids {
            let done = match find(app, &id).await {
                Ok(row) => work.on(app, admin, &row).await,
                Err(error) => Err(error),
            };
            results.push(outcome(id, done));
        }
    }
    let ok = results.iter().all(|result| result.ok);
    Ok(response::json(StatusCode::OK, &Answer { ok, results, remaining }))
}

fn outcome(id: String, done: Result<(), Error>) -> Outcome {
    if let Err(Error { cause: Some(cause), .. }) = &done {
        tracing::warn!(dead_letter = id, error = %cause, "a dead letter could not be worked on");
    }
    Outcome { id, ok: done.is_ok(), error: done.err().map(|error| error.error.into_owned()) }
}

/// `POST /admin/dead-letters/bulk/dismiss`
pub async fn dismiss(app: Arc<App>, admin: Admin, request: Request) -> Result<Response, Error> {
    each(&app, &admin, &request, Work::Dismiss).await
}

/// `POST /admin/dead-letters/bulk/reindex`
pub async fn reindex(app: Arc<App>, admin: Admin, request: Request) -> Result<Response, Error> {
    each(&app, &admin, &request, Work::Reindex).await
}

/// `POST /admin/dead-letters/bulk/retry`
pub async fn retry(app: Arc<App>, admin: Admin, request: Request) -> Result<Response, Error> {
    each(&app, &admin, &request, Work::Retry).await
}
