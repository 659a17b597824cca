//! `listRepoOps`: the log of a repo.

use std::sync::Arc;

use http::StatusCode;
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::{input, records};
use crate::app::App;
use belvedere_instance::spaces::{OpQuery, SpaceError, Viewer};
use belvedere_protocol::atproto::Tid;
use belvedere_protocol::spaces::oplog::Position;
use belvedere_protocol::spaces::r10::op::OpView;
use belvedere_storage::store::spaces::oplog::LoggedOp;
use belvedere_web::http::{Error, Request, Response, response};

#[derive(Serialize)]
struct OpsView {
    ops: Vec<OpView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cursor: Option<String>,
    /// On the page that has the end of the log.
    #[serde(skip_serializing_if = "Option::is_none")]
    commit: Option<Value>,
}

/// `GET listRepoOps?space=&repo=&since=&cursor=&limit=&excludeValues=`: the changes after a commit (`since`), or after the page
/// before (`cursor`). A reader whose commit is not in the log reads the whole repo.
pub async fn list(app: Arc<App>, viewer: Viewer, request: Request) -> Result<Response, Error> {
    let uri = input::space(&request)?;
    let repo = input::required_repo(&request)?;
    let since: Option<Tid> = input::optional(&request, "since")?;
    let after: Option<Position> = match (input::optional(&request, "cursor")?, since) {
        (Some(cursor), _) => Some(cursor),
        (None, Some(since)) if app.spaces.has_commit(&uri, &viewer, &repo, since).await? => {
            Some(Position::end_of(since))
        }
        (None, _) => None,
    };
    let query = OpQuery {
        after,
        limit: input::limit(&request, 100, 1_000)?,
        with_values: input::flag(&request, "excludeValues")? != Some(true),
    };
    let (page, commit) = app.spaces.ops(&uri, &viewer, &repo, &query).await?;
    let cursor = page.ops.last().map(|logged| logged.op.position.to_string());
    let ops = page.ops.iter().map(view).collect::<Result<_, _>>()?;
    let commit = commit.map(|commit| commit.to_json());
    Ok(response::json(StatusCode::OK, &OpsView { ops, cursor, commit }))
}

fn view(logged: &LoggedOp) -> Result<OpView, SpaceError> {
    let value = logged.record.as_deref().map(|text| records::value(Some(text))).transpose()?;
    Ok(OpView::new(&logged.op, value.map(RawValue::to_owned)))
}
