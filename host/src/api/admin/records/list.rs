//! `GET /admin/records`: the records of one collection, newest first, with what the index knows of each.

use std::sync::Arc;

use http::StatusCode;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::access::Admin;
use crate::api::{failed, paging};
use crate::app::App;
use crate::atproto::Nsid;
use crate::clock::Timestamp;
use crate::http::{Error, Request, Response, response};
use crate::records::{Cursor, Page};
use crate::store::records::{self, ListArgs, RecordRow};

#[derive(Serialize)]
struct Answer {
    records: Vec<RecordView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cursor: Option<String>,
}

#[derive(Serialize)]
struct RecordView {
    uri: String,
    did: String,
    collection: String,
    rkey: String,
    cid: Option<String>,
    indexed_at: Timestamp,
    updated_at: Timestamp,
    record: Box<RawValue>,
    /// Labels come with the labelers.
    labels: [(); 0],
}

impl RecordView {
    fn new(row: RecordRow) -> Result<Self, serde_json::Error> {
        Ok(Self {
            uri: row.uri(),
            record: serde_json::from_slice(&row.record)?,
            cid: row.cid.map(|cid| cid.to_string()),
            did: row.did.to_string(),
            collection: row.collection.to_string(),
            rkey: row.rkey,
            indexed_at: row.indexed_at,
            updated_at: row.updated_at,
            labels: [],
        })
    }
}

pub async fn handle(app: Arc<App>, _admin: Admin, request: Request) -> Result<Response, Error> {
    let collection = paging::required(&request, "collection")?;
    let collection =
        Nsid::try_from(collection.as_str()).map_err(|_| Error::bad_request("collection is not an NSID"))?;
    let limit = paging::limit(&request, paging::RECORDS)?;
    let after = request
        .query("cursor")
        .map(|c| Cursor::parse_keyset(&c))
        .transpose()
        .map_err(|e| Error::bad_request(e.to_string()))?;

    let args = ListArgs { collection: &collection, did: None, limit: limit + 1, after };
    let rows = records::list(&app.db, &args).await.map_err(failed)?;
    let page = Page::cut(rows, limit);
    let answer = Answer {
        cursor: page.next.map(|cursor| cursor.to_string()),
        records: page
            .rows
            .into_iter()
            .map(RecordView::new)
            .collect::<Result<_, _>>()
            .map_err(Error::internal)?,
    };
    Ok(response::json(StatusCode::OK, &answer))
}
