//! `/admin/verification-methods`: further keys in the DID document of the instance (admin-api.md §11).

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::access::Admin;
use crate::api::answer::{Empty, EmptyResult, Json, JsonResult};
use crate::api::input::WithBody;
use crate::app::{App, Topic};
use belvedere_base::clock::Timestamp;
use belvedere_instance::events::Event;
use belvedere_instance::service_identity::{Mode, SetupError, parse_fragment};
use belvedere_storage::store::StoreError;
use belvedere_storage::store::verification_methods::{self, MethodRow};
use belvedere_web::http::{Error, Request};

#[derive(Debug, Serialize, JsonSchema)]
pub struct VerificationMethod {
    id: String,
    fragment_id: String,
    key_type: &'static str,
    public_key_multibase: String,
    created_at: Timestamp,
}

impl From<MethodRow> for VerificationMethod {
    fn from(row: MethodRow) -> Self {
        let MethodRow { id, fragment_id, public_key_multibase, created_at, .. } = row;
        Self { id, fragment_id, key_type: "Multikey", public_key_multibase, created_at }
    }
}

/// `GET /admin/verification-methods`: the keys of the instance's DID document, oldest first.
pub async fn list(app: Arc<App>, _admin: Admin, _request: Request) -> JsonResult<Vec<VerificationMethod>> {
    let rows = verification_methods::list(&app.db).await?;
    let rows = rows.into_iter().filter(|row| row.deleted_at.is_none());
    Ok(Json(rows.map(VerificationMethod::from).collect()))
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct NewMethod {
    fragment_id: String,
}

/// `POST /admin/verification-methods`: adds a new key of P-256.
pub async fn create(
    app: Arc<App>,
    admin: Admin,
    request: WithBody<NewMethod>,
) -> JsonResult<VerificationMethod, 201> {
    let NewMethod { fragment_id } = request.json()?;
    let fragment = parse_fragment(&fragment_id).map_err(|error| Error::bad_request(error.to_string()))?;
    let method = app.identity_setup.add_method(fragment).await.map_err(|error| match error {
        SetupError::Store(StoreError::Conflict(_)) => {
            Error::conflict("there is a verification method with this fragment")
        }
        other => Error::from(other),
    })?;
    app.changed(Topic::ServiceIdentity).await?;
    let (actor, fragment) = (admin.did.to_string(), fragment_id);
    app.events.record(Event::VerificationMethodCreated { actor, fragment });
    Ok(Json(VerificationMethod::from(method)))
}

/// `DELETE /admin/verification-methods/{fragment_id}`: removes a key, named with or without the `#`. A document at the
/// PLC directory has the key until the next update.
pub async fn delete(app: Arc<App>, admin: Admin, request: Request) -> EmptyResult {
    let name = request.param("fragment_id");
    let fragment = format!("#{}", name.strip_prefix('#').unwrap_or(name));
    if !verification_methods::delete(&app.db, &fragment, app.clock.now()).await? {
        return Err(Error::not_found("verification method not found"));
    }
    if !app.service_identity.mode().is_some_and(Mode::is_plc) {
        verification_methods::forget_deleted(&app.db, app.clock.now()).await?;
    }
    app.changed(Topic::ServiceIdentity).await?;
    let actor = admin.did.to_string();
    app.events.record(Event::VerificationMethodDeleted { actor, fragment });
    Ok(Empty)
}
