//! `POST /admin/scripts/reindex`: runs the record scripts of a collection on its stored records, in a background job.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::account::account_of;
use super::super::nsid;
use crate::access::Admin;
use crate::api::answer::{Json, JsonResult};
use crate::api::input::WithBody;
use crate::api::paging;
use crate::app::App;
use crate::event_scripts::{REINDEX_TYPE, Reindexing};
use belvedere_base::clock::Timestamp;
use belvedere_instance::events::Event;
use belvedere_instance::indexing::RecordAction;
use belvedere_web::http::Error;

#[derive(Debug, Deserialize, JsonSchema)]
pub struct ReindexRequest {
    #[schemars(extend("format" = "nsid"))]
    collection: String,
    /// Only the records of this account: a DID or a handle.
    did: Option<String>,
    /// Only records that were indexed then or later.
    #[schemars(with = "Option<Timestamp>")]
    since: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct ReindexJob {
    job_id: String,
}

/// Starts the job. 404 when the collection has no script that runs for new records.
pub async fn handle(
    app: Arc<App>,
    admin: Admin,
    request: WithBody<ReindexRequest>,
) -> JsonResult<ReindexJob, 202> {
    let ReindexRequest { collection, did, since } = request.json()?;
    let collection = nsid::parse("collection", &collection)?;
    let since = paging::time("since", since.as_deref())?;
    if app.scripting.events.record_script(collection.as_str(), RecordAction::Create).is_none() {
        let message =
            format!("no script is bound to record.create:{collection} or record.index:{collection}");
        return Err(Error::not_found(message));
    }
    let did = match did.filter(|did| !did.is_empty()) {
        Some(account) => Some(account_of(&app, "did", &account).await?),
        None => None,
    };
    let actor = admin.did.to_string();
    let input = Reindexing { collection, did, since };
    let job_id = app.scripting.jobs.create_own(REINDEX_TYPE, &input, &actor).await?;
    app.events.record(Event::JobCreated { actor, job_type: REINDEX_TYPE.to_owned(), job_id: job_id.clone() });
    Ok(Json(ReindexJob { job_id }))
}
