//! `GET /admin/jobs`: newest first.

use std::sync::Arc;

use http::StatusCode;
use serde::Serialize;

use super::view::JobView;
use crate::access::Admin;
use crate::api::paging;
use crate::app::App;
use crate::clock::Timestamp;
use crate::http::{Error, Request, Response, response};
use crate::store::jobs::{self, JobKeyset};

#[derive(Serialize)]
struct Answer {
    jobs: Vec<JobView>,
    /// Null at the end.
    cursor: Option<String>,
}

pub async fn handle(app: Arc<App>, _admin: Admin, request: Request) -> Result<Response, Error> {
    let limit = paging::limit(&request, paging::LOGS)?;
    let status = request.query("status").filter(|status| !status.is_empty());
    let after = request.query("cursor").map(|cursor| keyset(&cursor)).transpose()?;
    let mut rows = jobs::list(&app.db, status.as_deref(), after.as_ref(), limit + 1).await?;
    let more = rows.len() > limit as usize;
    rows.truncate(limit as usize);
    let cursor = rows.last().filter(|_| more).map(|row| format!("{}_{}", row.created_at, row.id));
    let jobs = rows.into_iter().map(JobView::new).collect::<Result<_, _>>().map_err(Error::internal)?;
    Ok(response::json(StatusCode::OK, &Answer { jobs, cursor }))
}

/// The time of the last job, and its id for those of one microsecond.
fn keyset(text: &str) -> Result<JobKeyset, Error> {
    let bad = || Error::bad_request("cursor must be the cursor of an earlier answer");
    let (time, id) = text.split_once('_').ok_or_else(bad)?;
    Ok(JobKeyset { created_at: Timestamp::parse(time).map_err(|_| bad())?, id: id.to_owned() })
}
