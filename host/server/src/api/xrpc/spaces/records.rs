//! `getRecord`, `listRecords`.

use std::sync::Arc;

use http::StatusCode;
use serde::Serialize;
use serde_json::value::RawValue;

use super::input;
use crate::app::App;
use belvedere_instance::spaces::{ListQuery, Viewer};
use belvedere_protocol::atproto::Nsid;
use belvedere_protocol::spaces::{RecordPath, SpaceUri};
use belvedere_storage::store::StoreError;
use belvedere_storage::store::spaces::lists::{InvalidPlace, Page};
use belvedere_storage::store::spaces::records::{PAGE_BYTES, SpaceRecord};
use belvedere_web::http::{Error, Request, Response, response};

#[derive(Serialize)]
struct RecordView<'a> {
    uri: String,
    cid: String,
    value: &'a RawValue,
}

/// The JSON text of a stored record.
pub(super) fn value(text: Option<&str>) -> Result<&RawValue, StoreError> {
    let damaged = |_| StoreError::Corrupt("space_records.record: it is not JSON".to_owned());
    serde_json::from_str(text.unwrap_or("null")).map_err(damaged)
}

/// `GET getRecord?space=&repo=&collection=&rkey=`: without `repo` only if one author has a record with this key.
pub async fn get(app: Arc<App>, viewer: Viewer, request: Request) -> Result<Response, Error> {
    let uri = input::space(&request)?;
    let (collection, rkey): (String, String) =
        (input::required(&request, "collection")?, input::required(&request, "rkey")?);
    let path = RecordPath::parse(&format!("{collection}/{rkey}"))
        .map_err(|error| input::invalid(error.to_string()))?;
    let repo = input::repo(&request)?;
    let record = app.spaces.record(&uri, &viewer, repo.as_ref(), &path).await?;
    let view = RecordView {
        uri: uri.record(record.author, record.path).to_string(),
        cid: record.cid.to_string(),
        value: value(record.text.as_deref())?,
    };
    Ok(response::json(StatusCode::OK, &view))
}

/// `GET listRecords?space=&repo=&collection=&limit=&cursor=&reverse=&excludeValues=`: without `repo` the records of all authors
/// whom the viewer may read. `includeValues` is the flag of an older generation.
pub async fn list(app: Arc<App>, viewer: Viewer, request: Request) -> Result<Response, Error> {
    let uri = input::space(&request)?;
    let excludes = match input::flag(&request, "excludeValues")? {
        Some(excludes) => excludes,
        None => input::flag(&request, "includeValues")? == Some(false),
    };
    let query = ListQuery {
        repo: input::repo(&request)?,
        collection: input::optional::<Nsid>(&request, "collection")?,
        after: request
            .query("cursor")
            .filter(|cursor| !cursor.is_empty())
            .map(|cursor| cursor.parse().map_err(|error: InvalidPlace| input::invalid(error.to_string())))
            .transpose()?,
        limit: input::limit(&request, 50, 1_000)?,
        is_reverse: input::flag(&request, "reverse")? == Some(true),
        with_values: !excludes,
        max_bytes: PAGE_BYTES,
    };
    let page = app.spaces.records(&uri, &viewer, &query).await?;
    Ok(response::json_bytes(StatusCode::OK, rendered(&uri, &page).into()))
}

/// The JSON of a page. The parts of an address need no escaping, and records are stored as JSON texts, so that a list costs little
/// more than its bytes.
fn rendered(space: &SpaceUri, page: &Page) -> String {
    let bytes = |record: &SpaceRecord| 400 + record.text.as_ref().map_or(0, String::len);
    let mut json = String::with_capacity(100 + page.records.iter().map(bytes).sum::<usize>());
    let space = space.to_string();
    json.push_str(r#"{"records":["#);
    for (n, record) in page.records.iter().enumerate() {
        let SpaceRecord { author, path, cid, text, .. } = record;
        let (collection, rkey) = (path.collection.as_str(), path.rkey.as_str());
        let comma = if n == 0 { "" } else { "," };
        push(&mut json, &[comma, r#"{"uri":""#, &space, "/", author.as_str(), "/", collection, "/", rkey]);
        push(&mut json, &[r#"","repo":""#, author.as_str(), r#"","collection":""#, collection]);
        push(&mut json, &[r#"","rkey":""#, rkey, r#"","cid":""#, &cid.to_string(), r#"""#]);
        if let Some(text) = text {
            push(&mut json, &[r#","value":"#, text]);
        }
        json.push('}');
    }
    json.push(']');
    if let Some(next) = &page.next {
        push(&mut json, &[r#","cursor":""#, &next.to_string(), r#"""#]);
    }
    json.push('}');
    json
}

fn push(json: &mut String, parts: &[&str]) {
    for part in parts {
        json.push_str(part);
    }
}
