//! `/admin/records`: lists and deletes indexed records.

mod conditions;
mod moderated;
pub mod why;

use std::collections::HashMap;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use self::conditions::RecordsQuery;
use self::moderated::ModeratedPage;
use crate::access::{Admin, Permission};
use crate::api::answer::{Empty, EmptyResult, Json, JsonResult};
use crate::api::input::WithQuery;
use crate::api::paging::{self, given};
use crate::app::App;
use belvedere_base::clock::Timestamp;
use belvedere_instance::events::Event;
use belvedere_protocol::atproto::{Nsid, RecordUri};
use belvedere_storage::query::Position;
use belvedere_storage::store::labels::{self, ActiveLabel};
use belvedere_storage::store::moderation::ModerationRow;
use belvedere_storage::store::query;
use belvedere_storage::store::records::{self, DeletedCollection, FullRecordRow};
use belvedere_storage::store::replicas::Writer;
use belvedere_web::http::{Error, Request};

#[derive(Debug, Serialize, JsonSchema)]
pub struct RecordList {
    records: Vec<IndexedRecord>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cursor: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Record")]
struct IndexedRecord {
    #[schemars(extend("format" = "at-uri"))]
    uri: String,
    #[schemars(extend("format" = "did"))]
    did: String,
    #[schemars(extend("format" = "nsid"))]
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
    labels: Vec<RecordLabel>,
    /// With `moderated=true`: the decision in force on the record, or else on its account.
    #[serde(skip_serializing_if = "Option::is_none")]
    moderation: Option<ModerationRow>,
}

/// A label in force: one of a labeler, or one that the author put into the record.
#[derive(Debug, Serialize, JsonSchema)]
struct RecordLabel {
    src: String,
    val: String,
    /// Empty for a label of the author.
    cts: String,
}

impl From<ActiveLabel> for RecordLabel {
    fn from(label: ActiveLabel) -> Self {
        let cts = label.cts.map(|cts| cts.to_string()).unwrap_or_default();
        Self { src: label.src, val: label.val, cts }
    }
}

impl IndexedRecord {
    /// `labels`: those of the page, by URI.
    fn new(
        full: FullRecordRow,
        labels: &mut HashMap<String, Vec<ActiveLabel>>,
    ) -> Result<Self, serde_json::Error> {
        let FullRecordRow { row, updated_at, invalid_reason, .. } = full;
        let uri = row.uri();
        let labels = labels.remove(&uri).unwrap_or_default();
        Ok(Self {
            labels: labels.into_iter().map(RecordLabel::from).collect(),
            moderation: None,
            uri,
            record: serde_json::from_slice(&row.record)?,
            cid: row.cid.map(|cid| cid.to_string()),
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
pub async fn list(app: Arc<App>, admin: Admin, request: WithQuery<RecordsQuery>) -> JsonResult<RecordList> {
    let query = request.parameters()?;
    match given(query.moderated.as_deref()).as_deref() {
        None | Some("false") => {}
        Some("true") if admin.may(Permission::ModerationRead) => return moderated_list(&app, query).await,
        Some("true") => return Err(Error::forbidden("moderated=true needs the permission moderation:read")),
        Some(_) => return Err(Error::bad_request("moderated must be true or false")),
    }
    let wanted = conditions::read(&app, query).await?;
    let page = query::read_full(&app.db, &wanted).await.map_err(conditions::read_error)?;
    let mut records = with_labels(&app, page.rows).await?;
    if let Some(label) = wanted.narrow.label {
        records.retain(|record| record.labels.iter().any(|given| given.val == label.val));
    }
    Ok(Json(RecordList { records, cursor: page.next.as_ref().map(Position::cursor) }))
}

async fn moderated_list(app: &App, query: RecordsQuery) -> JsonResult<RecordList> {
    let request = conditions::read_moderated(app, query).await?;
    let ModeratedPage { rows, decisions, cursor } = moderated::page(app, &request).await?;
    let mut records = with_labels(app, rows).await?;
    for record in &mut records {
        let decision = decisions.get(&record.uri).or_else(|| decisions.get(&record.did));
        record.moderation = decision.cloned();
    }
    Ok(Json(RecordList { records, cursor }))
}

async fn with_labels(app: &App, rows: Vec<FullRecordRow>) -> Result<Vec<IndexedRecord>, Error> {
    let uris: Vec<String> = rows.iter().map(|full| full.row.uri()).collect();
    let mut labels = labels::active(&app.db, &uris, app.clock.now()).await?;
    let records = rows.into_iter().map(|full| IndexedRecord::new(full, &mut labels));
    records.collect::<Result<Vec<_>, _>>().map_err(Error::internal)
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct CollectionQuery {
    #[schemars(required, extend("format" = "nsid"))]
    collection: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct DeletedRecords {
    deleted: u64,
}

/// `DELETE /admin/records/collection?collection=`: deletes all records of one collection from the index.
pub async fn collection(
    app: Arc<App>,
    admin: Admin,
    request: WithQuery<CollectionQuery>,
) -> JsonResult<DeletedRecords> {
    let collection = paging::required("collection", request.parameters()?.collection)?;
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
    Ok(Json(DeletedRecords { deleted }))
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct IndexedCollections {
    #[schemars(extend("items" = { "type": "string", "format": "nsid" }))]
    collections: Vec<String>,
}

/// `GET /admin/records/collections`: the collections that are indexed.
pub async fn collections(app: Arc<App>, _admin: Admin, _request: Request) -> JsonResult<IndexedCollections> {
    let snapshot = app.registry.snapshot();
    Ok(Json(IndexedCollections { collections: snapshot.tracked().iter().map(Nsid::to_string).collect() }))
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct RecordQuery {
    #[schemars(required, extend("format" = "at-uri"))]
    uri: Option<String>,
}

/// `DELETE /admin/records?uri=`: deletes one record from the index. The repo keeps it, and a later event of the stream
/// indexes it again.
pub async fn delete(app: Arc<App>, admin: Admin, request: WithQuery<RecordQuery>) -> EmptyResult {
    let uri = paging::required("uri", request.parameters()?.uri)?;
    let uri = RecordUri::parse(&uri).map_err(|e| Error::bad_request(e.to_string()))?;
    if !records::delete(&app.db, &uri).await? {
        return Err(Error::not_found("record not found"));
    }
    app.db.announce_writes(&[Writer::account(&admin.did)]).await;
    app.events.record(Event::RecordDeleted { actor: Some(admin.did.to_string()), uri });
    Ok(Empty)
}
