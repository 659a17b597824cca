//! `/admin/records`: lists and deletes indexed records.

pub mod bulk;
mod conditions;
pub mod export;
pub mod fields;
mod listing;
mod moderated;
pub mod why;

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use self::conditions::RecordsQuery;
use self::listing::{IndexedRecord, Listing, RecordPage};
use crate::access::Admin;
use crate::api::answer::{Empty, EmptyResult, Json, JsonResult};
use crate::api::input::WithQuery;
use crate::api::paging;
use crate::app::App;
use belvedere_instance::events::Event;
use belvedere_protocol::atproto::{Nsid, RecordUri};
use belvedere_storage::store::records::{self, DeletedCollection};
use belvedere_storage::store::replicas::Writer;
use belvedere_web::fair_share::Tenant;
use belvedere_web::http::{Error, Request};

#[derive(Debug, Serialize, JsonSchema)]
pub struct RecordList {
    records: Vec<IndexedRecord>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cursor: Option<String>,
}

/// `GET /admin/records`: the records of one collection that meet conditions, newest first, with their index metadata.
pub async fn list(app: Arc<App>, admin: Admin, request: WithQuery<RecordsQuery>) -> JsonResult<RecordList> {
    let listing = Listing::read(&app, &admin, request.parameters()?).await?;
    let RecordPage { records, cursor } = listing.page(&app, &Tenant::Instance).await?;
    Ok(Json(RecordList { records, cursor }))
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct CollectionQuery {
    #[schemars(required, extend("format" = "nsid"))]
    collection: Option<String>,
}

fn collection_of(query: CollectionQuery) -> Result<Nsid, Error> {
    conditions::collection(query.collection)
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
    let collection = collection_of(request.parameters()?)?;
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
    delete_one(&app, &admin, &uri, None).await?;
    app.db.announce_writes(&[Writer::account(&admin.did)]).await;
    Ok(Empty)
}

async fn delete_one(app: &App, admin: &Admin, uri: &str, reason: Option<String>) -> Result<(), Error> {
    let uri = RecordUri::parse(uri).map_err(|e| Error::bad_request(e.to_string()))?;
    if !records::delete(&app.db, &uri).await? {
        return Err(Error::not_found("record not found"));
    }
    app.events.record(Event::RecordDeleted { actor: Some(admin.did.to_string()), uri, reason });
    Ok(())
}
