//! Deletes several records from the index in one request.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;

use super::delete_one;
use crate::access::Admin;
use crate::api::answer::{Json, JsonResult};
use crate::api::bulk::{self, BulkOutcome, BulkOutcomes};
use crate::api::input::WithBody;
use crate::app::App;
use belvedere_instance::moderation::checked_reason;
use belvedere_storage::store::replicas::Writer;
use belvedere_web::http::Error;

/// Records of one request: a page of the list. Each is a transaction.
const MAX_RECORDS: usize = 100;

#[derive(Debug, Deserialize, JsonSchema)]
pub struct DeletedUris {
    /// AT URIs, 1 to 100.
    uris: Vec<String>,
    /// At most 2000 characters. It is in the events.
    reason: Option<String>,
}

/// `POST /admin/records/bulk/delete`: deletes several records from the index, with an event for each. The repos keep them, and a later
/// event of the stream indexes a record again. The answer has a result for each record.
pub async fn delete(app: Arc<App>, admin: Admin, request: WithBody<DeletedUris>) -> JsonResult<BulkOutcomes> {
    let DeletedUris { uris, reason } = request.json()?;
    bulk::check_number("uris", uris.len(), MAX_RECORDS)?;
    let reason = reason.filter(|reason| !reason.trim().is_empty());
    let reason = reason.map(|reason| checked_reason(&reason)).transpose();
    let reason = reason.map_err(|error| Error::bad_request(error.to_string()))?;
    let mut results = Vec::with_capacity(uris.len());
    for uri in uris {
        let done = delete_one(&app, &admin, &uri, reason.clone()).await;
        results.push(BulkOutcome::new(uri, done));
    }
    if results.iter().any(|result| result.ok) {
        app.db.announce_writes(&[Writer::account(&admin.did)]).await;
    }
    Ok(Json(results.into()))
}
