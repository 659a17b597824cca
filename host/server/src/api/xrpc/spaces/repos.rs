//! `getLatestCommit`, `getRepo`, `listRepos`.

use std::sync::Arc;

use futures_util::TryStreamExt as _;
use http::StatusCode;
use http::header::HeaderValue;
use serde_json::{Value, json};

use super::input;
use crate::app::App;
use belvedere_instance::spaces::Viewer;
use belvedere_protocol::spaces::r10::RepoEntry;
use belvedere_web::http::response::Interrupted;
use belvedere_web::http::{Error, Request, Response, response};

const CAR: HeaderValue = HeaderValue::from_static("application/vnd.ipld.car");

/// `GET getLatestCommit?space=&repo=`
pub async fn latest_commit(app: Arc<App>, viewer: Viewer, request: Request) -> Result<Response, Error> {
    let commit =
        app.spaces.commit(&input::space(&request)?, &viewer, &input::required_repo(&request)?).await?;
    let answer = json!({ "rev": commit.rev.to_string(), "commit": commit.to_json() });
    Ok(response::json(StatusCode::OK, &answer))
}

/// `GET getRepo?space=&repo=&excludeValues=`: the repo as a CAR; without values only its commit and index, which prove what is in
/// it.
pub async fn export(app: Arc<App>, viewer: Viewer, request: Request) -> Result<Response, Error> {
    let (uri, repo) = (input::space(&request)?, input::required_repo(&request)?);
    let with_values = input::flag(&request, "excludeValues")? != Some(true);
    let export = app.spaces.export(&uri, &viewer, &repo).await?;
    let bytes = export.into_stream(with_values).map_err(|error| {
        tracing::info!(%error, "an export of a repo in a space ends early");
        Interrupted
    });
    Ok(response::download(CAR, bytes))
}

/// `GET listRepos?space=&cursor=&since=&limit=`: the repos of the writers, in the order of their changes. The cursor is the rev
/// of the space, so that a reader who keeps it goes on there.
pub async fn list(app: Arc<App>, viewer: Viewer, request: Request) -> Result<Response, Error> {
    let uri = input::space(&request)?;
    let limit = input::limit(&request, 100, 1_000)?;
    let after = request.query("cursor").or_else(|| request.query("since")).unwrap_or_default();
    let (repos, space_rev) = app.spaces.repos(&uri, &viewer, &after, limit).await?;
    let listed: Vec<Value> = repos.iter().map(RepoEntry::to_json).collect();
    let mut answer = json!({ "repos": listed, "spaceRev": space_rev.map(|rev| rev.to_string()) });
    if let Some(last) = repos.last() {
        answer["cursor"] = last.space_rev.to_string().into();
    }
    Ok(response::json(StatusCode::OK, &answer))
}
