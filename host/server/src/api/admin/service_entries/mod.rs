//! `/admin/service-entries`: the services in the DID document of the instance, and which methods their callers may call
//! (admin-api.md §11).

pub mod sync_plc;
pub mod xrpcs;

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::access::Admin;
use crate::api::answer::{Empty, EmptyResult, Json, JsonResult};
use crate::api::input::WithBody;
use crate::app::{App, Topic};
use belvedere_instance::events::Event;
use belvedere_instance::service_identity::{AccessMode, parse_fragment};
use belvedere_storage::store::StoreError;
use belvedere_storage::store::service_entries::{self, EntryChange, EntryRow};
use belvedere_web::http::{Error, Request};

/// Entries of an instance: the PLC directory accepts ten services.
const MAX_ENTRIES: i64 = 10;

/// Bytes of a service type: the limit of the PLC directory.
const MAX_TYPE: usize = 256;

/// `GET /admin/service-entries`: the services of the instance's DID document, oldest first.
pub async fn list(app: Arc<App>, _admin: Admin, _request: Request) -> JsonResult<Vec<EntryRow>> {
    Ok(Json(service_entries::list(&app.db).await?))
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct NewEntry {
    fragment_id: String,
    service_type: String,
}

/// `POST /admin/service-entries`: adds a service that permits every method.
pub async fn create(app: Arc<App>, admin: Admin, request: WithBody<NewEntry>) -> JsonResult<EntryRow, 201> {
    let NewEntry { fragment_id, service_type } = request.json()?;
    check_fragment(&fragment_id)?;
    check_type(&service_type)?;
    let names = (fragment_id.as_str(), service_type.as_str());
    let row = service_entries::create(&app.db, names, MAX_ENTRIES, app.clock.now()).await;
    let row = row.map_err(conflict)?;
    let row = row.ok_or_else(|| Error::bad_request(format!("at most {MAX_ENTRIES} service entries")))?;
    app.changed(Topic::ServiceIdentity).await?;
    let (actor, id, fragment) = (admin.did.to_string(), row.id, fragment_id);
    app.events.record(Event::ServiceEntryCreated { actor, id, fragment, service_type });
    Ok(Json(row))
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct EntryPatch {
    fragment_id: Option<String>,
    service_type: Option<String>,
    access_mode: Option<AccessMode>,
}

/// `PUT /admin/service-entries/{id}`: changes the given fields of a service.
pub async fn update(app: Arc<App>, admin: Admin, request: WithBody<EntryPatch>) -> EmptyResult {
    let id = entry_id(&request)?;
    let EntryPatch { fragment_id, service_type, access_mode } = request.json()?;
    fragment_id.as_deref().map(check_fragment).transpose()?;
    service_type.as_deref().map(check_type).transpose()?;
    let change = EntryChange {
        fragment_id: fragment_id.as_deref(),
        service_type: service_type.as_deref(),
        access_mode: access_mode.map(AccessMode::as_str),
    };
    if !service_entries::update(&app.db, id, change, app.clock.now()).await.map_err(conflict)? {
        return Err(not_found());
    }
    app.changed(Topic::ServiceIdentity).await?;
    let change =
        json!({ "fragment_id": fragment_id, "service_type": service_type, "access_mode": access_mode });
    app.events.record(Event::ServiceEntryUpdated { actor: admin.did.to_string(), id, change });
    Ok(Empty)
}

/// `DELETE /admin/service-entries/{id}`: removes a service.
pub async fn delete(app: Arc<App>, admin: Admin, request: Request) -> EmptyResult {
    let id = entry_id(&request)?;
    if !service_entries::delete(&app.db, id).await? {
        return Err(not_found());
    }
    app.changed(Topic::ServiceIdentity).await?;
    app.events.record(Event::ServiceEntryDeleted { actor: admin.did.to_string(), id });
    Ok(Empty)
}

/// The entry that the path names.
fn entry_id(request: &Request) -> Result<i64, Error> {
    request.param("id").parse().map_err(|_| Error::bad_request("the id of a service entry is an integer"))
}

fn not_found() -> Error {
    Error::not_found("service entry not found")
}

fn check_fragment(text: &str) -> Result<(), Error> {
    parse_fragment(text).map(drop).map_err(|error| Error::bad_request(error.to_string()))
}

fn check_type(text: &str) -> Result<(), Error> {
    if text.trim().is_empty() || text.len() > MAX_TYPE || text.chars().any(char::is_control) {
        let text = format!("service_type must have 1 to {MAX_TYPE} bytes, like AtprotoLabeler");
        return Err(Error::bad_request(text));
    }
    Ok(())
}

fn conflict(error: StoreError) -> Error {
    match error {
        StoreError::Conflict(_) => Error::conflict("there is a service entry with this fragment"),
        other => Error::from(other),
    }
}
