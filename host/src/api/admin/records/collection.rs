//! `DELETE /admin/records/collection?collection=`: empty one collection of the index.

use std::sync::Arc;

use http::StatusCode;
use serde_json::json;

use crate::access::Admin;
use crate::api::paging;
use crate::app::App;
use crate::atproto::Nsid;
use crate::events::Event;
use crate::http::{Error, Request, Response, response};
use crate::store::records;

pub async fn handle(app: Arc<App>, admin: Admin, request: Request) -> Result<Response, Error> {
    let collection = paging::required(&request, "collection")?;
    let collection =
        Nsid::try_from(collection.as_str()).map_err(|_| Error::bad_request("collection is not an NSID"))?;
    let deleted = records::delete_collection(&app.db, &collection).await?;
    let event = Event::CollectionDeleted {
        actor: admin.did.to_string(),
        collection: collection.as_str().to_owned(),
        deleted,
    };
    app.events.record(event);
    Ok(response::json(StatusCode::OK, &json!({ "deleted": deleted })))
}
