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
use belvedere_storage::store::spaces::records::{InvalidPlace, PAGE_BYTES, SpaceRecord};
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

#[derive(Serialize)]
struct ListView<'a> {
    records: Vec<ItemView<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cursor: Option<String>,
}

#[derive(Serialize)]
struct ItemView<'a> {
    uri: String,
    repo: &'a str,
    collection: &'a str,
    rkey: &'a str,
    cid: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<&'a RawValue>,
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
    let cursor = page.next.map(|last| last.to_string());
    let records = page.records.iter().map(|record| item(&uri, record)).collect::<Result<_, _>>()?;
    Ok(response::json(StatusCode::OK, &ListView { records, cursor }))
}

fn item<'a>(uri: &SpaceUri, record: &'a SpaceRecord) -> Result<ItemView<'a>, StoreError> {
    Ok(ItemView {
        uri: format!("{uri}/{}/{}", record.author, record.path),
        repo: record.author.as_str(),
        collection: record.path.collection.as_str(),
        rkey: record.path.rkey.as_str(),
        cid: record.cid.to_string(),
        value: record.text.as_deref().map(|text| value(Some(text))).transpose()?,
    })
}
