//! `/admin/service-entries/{id}/xrpcs`: the methods that a service with the access mode `allowlist` permits.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{entry_id, not_found};
use crate::access::Admin;
use crate::api::answer::{Empty, EmptyResult, Json, JsonResult};
use crate::api::input::WithBody;
use crate::app::{App, Topic};
use belvedere_instance::events::Event;
use belvedere_protocol::atproto::Nsid;
use belvedere_storage::store::service_entries;
use belvedere_web::http::{Error, Request};

/// Methods of one service, which every host keeps in memory.
const MAX_METHODS: i64 = 2_000;

/// `GET /admin/service-entries/{id}/xrpcs`: the methods of a service with an allowlist, sorted. Empty for an unknown
/// service.
pub async fn list(app: Arc<App>, _admin: Admin, request: Request) -> JsonResult<MethodNames> {
    let nsids = service_entries::xrpcs(&app.db, entry_id(&request)?).await?;
    Ok(Json(MethodNames(nsids)))
}

/// NSIDs of methods.
#[derive(Debug, Serialize, JsonSchema)]
pub struct MethodNames(#[schemars(extend("items" = { "type": "string", "format": "nsid" }))] Vec<String>);

#[derive(Debug, Deserialize, JsonSchema)]
pub struct Methods {
    #[schemars(with = "MethodNames")]
    lexicon_ids: Vec<String>,
}

/// The methods that a request names, in the form in which calls name them. Their lexicons may be uploaded later.
fn methods(request: &WithBody<Methods>) -> Result<Vec<String>, Error> {
    let Methods { lexicon_ids } = request.json()?;
    if lexicon_ids.len() > usize::try_from(MAX_METHODS).unwrap_or(usize::MAX) {
        return Err(too_many());
    }
    let parsed = lexicon_ids.iter().map(|text| {
        let nsid = Nsid::try_from(text.as_str()).map_err(|_| {
            let shown: String = text.chars().take(80).collect();
            Error::bad_request(format!("{shown:?} is not an NSID"))
        })?;
        Ok(nsid.to_string())
    });
    parsed.collect()
}

/// `POST /admin/service-entries/{id}/xrpcs`: adds methods to it.
pub async fn create(app: Arc<App>, admin: Admin, request: WithBody<Methods>) -> EmptyResult {
    let (id, nsids) = (entry_id(&request)?, methods(&request)?);
    match service_entries::bind_xrpcs(&app.db, id, &nsids, MAX_METHODS).await? {
        None => return Err(not_found()),
        Some(false) => return Err(too_many()),
        Some(true) => {}
    }
    changed(&app, &admin, id, json!({ "bound": nsids })).await
}

/// `DELETE /admin/service-entries/{id}/xrpcs`: removes methods from it. Methods that are not bound are ignored.
pub async fn delete(app: Arc<App>, admin: Admin, request: WithBody<Methods>) -> EmptyResult {
    let (id, nsids) = (entry_id(&request)?, methods(&request)?);
    service_entries::unbind_xrpcs(&app.db, id, &nsids).await?;
    changed(&app, &admin, id, json!({ "unbound": nsids })).await
}

async fn changed(app: &App, admin: &Admin, id: i64, change: serde_json::Value) -> EmptyResult {
    app.changed(Topic::ServiceIdentity).await?;
    app.events.record(Event::ServiceEntryUpdated { actor: admin.did.to_string(), id, change });
    Ok(Empty)
}

fn too_many() -> Error {
    Error::bad_request(format!("at most {MAX_METHODS} methods of one service"))
}
