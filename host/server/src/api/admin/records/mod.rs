//! `/admin/records`: lists and deletes indexed records.

mod conditions;
pub mod why;

use std::collections::HashMap;
use std::sync::Arc;

use http::StatusCode;
use serde::Serialize;
use serde_json::json;
use serde_json::value::RawValue;

use crate::access::Admin;
use crate::api::paging;
use crate::app::App;
use belvedere_base::clock::Timestamp;
use belvedere_instance::events::Event;
use belvedere_protocol::atproto::{Nsid, RecordUri};
use belvedere_storage::query::Position;
use belvedere_storage::store::labels::{self, ActiveLabel};
use belvedere_storage::store::query;
use belvedere_storage::store::records::{self, DeletedCollection, FullRecordRow};
use belvedere_storage::store::replicas::Writer;
use belvedere_web::http::{Error, Request, Response, response};

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
    /// Whether the collection's lexicon accepts the record.
    valid: bool,
    /// The reason why it does not.
    invalid_reason: Option<String>,
    record: Box<RawValue>,
    labels: Vec<LabelView>,
}

/// A label in force: one of a labeler, or one that the author put into the record.
#[derive(Serialize)]
struct LabelView {
    src: String,
    val: String,
    /// Empty for a label of the author.
    cts: String,
}

impl From<ActiveLabel> for LabelView {
    fn from(label: ActiveLabel) -> Self {
        let cts = label.cts.map(|cts| cts.to_string()).unwrap_or_default();
        Self { src: label.src, val: label.val, cts }
    }
}

impl RecordView {
    /// `labels`: those of the page, by URI.
    fn new(
        full: FullRecordRow,
        labels: &mut HashMap<String, Vec<ActiveLabel>>,
    ) -> Result<Self, serde_json::Error> {
        let FullRecordRow { row, cid, updated_at, invalid_reason, .. } = full;
        let uri = row.uri();
        let labels = labels.remove(&uri).unwrap_or_default();
        Ok(Self {
            labels: labels.into_iter().map(LabelView::from).collect(),
            uri,
            record: serde_json::from_slice(&row.record)?,
            cid: cid.map(|cid| cid.to_string()),
            did: row.did,
            collection: row.collection.as_str().to_owned(),
            rkey: row.rkey,
            indexed_at: row.indexed_at,
            updated_at,
            valid: invalid_reason.is_none(),
            invalid_reason,
        })
    }
}

/// `GET /admin/records`: the records of one collection that meet conditions, newest first, with their index metadata.
pub async fn list(app: Arc<App>, _admin: Admin, request: Request) -> Result<Response, Error> {
    let wanted = conditions::read(&app, &request).await?;
    let page = query::read_full(&app.db, &wanted).await.map_err(conditions::read_error)?;
    let uris: Vec<String> = page.rows.iter().map(|full| full.row.uri()).collect();
    let mut labels = labels::active(&app.db, &uris, app.clock.now()).await?;
    let records = page.rows.into_iter().map(|full| RecordView::new(full, &mut labels));
    let mut records = records.collect::<Result<Vec<_>, _>>().map_err(Error::internal)?;
    if let Some(label) = wanted.narrow.label {
        records.retain(|record| record.labels.iter().any(|given| given.val == label.val));
    }
    let answer = Answer { records, cursor: page.next.as_ref().map(Position::cursor) };
    Ok(response::json(StatusCode::OK, &answer))
}

/// `DELETE /admin/records/collection?collection=`: deletes all records of one collection from the index.
pub async fn collection(app: Arc<App>, admin: Admin, request: Request) -> Result<Response, Error> {
    let collection = paging::required(&request, "collection")?;
    let collection =
        Nsid::try_from(collection.as_str()).map_err(|_| Error::bad_request("collection is not an NSID"))?;
    let DeletedCollection { records: deleted, end } = records::delete_collection(&app.db, &collection).await;
    if deleted > 0 || end.is_ok() {
        app.db.announce_writes(&[Writer::account(&admin.did)]).await;
        let event = Event::CollectionDeleted {
            actor: admin.did.to_string(),
            collection: collection.as_str().to_owned(),
            deleted,
        };
        app.events.record(event);
    }
    end?;
    Ok(response::json(StatusCode::OK, &json!({ "deleted": deleted })))
}

/// `GET /admin/records/collections`: the collections that are indexed.
pub async fn collections(app: Arc<App>, _admin: Admin, _request: Request) -> Result<Response, Error> {
    let snapshot = app.registry.snapshot();
    let collections: Vec<&str> = snapshot.tracked().iter().map(Nsid::as_str).collect();
    Ok(response::json(StatusCode::OK, &json!({ "collections": collections })))
}

/// `DELETE /admin/records?uri=`: deletes one record from the index. The repo keeps it, and a later event of the stream
/// indexes it again.
pub async fn delete(app: Arc<App>, admin: Admin, request: Request) -> Result<Response, Error> {
    let uri = paging::required(&request, "uri")?;
    let uri = RecordUri::parse(&uri).map_err(|e| Error::bad_request(e.to_string()))?;
    if !records::delete(&app.db, &uri).await? {
        return Err(Error::not_found("record not found"));
    }
    app.db.announce_writes(&[Writer::account(&admin.did)]).await;
    app.events.record(Event::RecordDeleted { actor: Some(admin.did.to_string()), uri });
    Ok(response::empty(StatusCode::NO_CONTENT))
}
