//! `GET /admin/records`: the records of one collection, newest first, with what the index knows of each.

use std::sync::Arc;

use http::StatusCode;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::access::Admin;
use crate::api::paging;
use crate::app::App;
use crate::atproto::Nsid;
use crate::clock::Timestamp;
use crate::http::{Error, Request, Response, response};
use crate::records::{Query, page};
use crate::store::records::FullRecordRow;

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
    fn new(full: FullRecordRow) -> Result<Self, serde_json::Error> {
        let FullRecordRow { row, cid, updated_at, .. } = full;
        Ok(Self {
            uri: row.uri(),
            record: serde_json::from_slice(&row.record)?,
            cid: cid.map(|cid| cid.to_string()),
            did: row.did,
            collection: row.collection.as_str().to_owned(),
            rkey: row.rkey,
            indexed_at: row.indexed_at,
            updated_at,
            labels: [],
        })
    }
}

pub async fn handle(app: Arc<App>, _admin: Admin, request: Request) -> Result<Response, Error> {
    let collection = paging::required(&request, "collection")?;
    let collection =
        Nsid::try_from(collection.as_str()).map_err(|_| Error::bad_request("collection is not an NSID"))?;
    let query = Query {
        limit: paging::limit(&request, paging::RECORDS)?,
        cursor: request.query("cursor"),
        ..Query::of(collection)
    };
    let page = page::read_full(&app.db, &query).await?;
    let records = page.rows.into_iter().map(RecordView::new);
    let answer =
        Answer { records: records.collect::<Result<_, _>>().map_err(Error::internal)?, cursor: page.cursor };
    Ok(response::json(StatusCode::OK, &answer))
}
