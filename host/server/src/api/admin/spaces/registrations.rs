//! `/admin/spaces/{did}/{type}/{skey}/registrations`: the services that receive notices of writes.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;

use super::named;
use crate::access::Admin;
use crate::api::answer::{Json, JsonResult};
use crate::app::App;
use belvedere_base::clock::Timestamp;
use belvedere_storage::store::spaces::registrations::RegistrationRow;
use belvedere_web::http::Request;

#[derive(Debug, Serialize, JsonSchema)]
pub struct SpaceRegistration {
    /// The DID of the service, with the fragment that names it.
    service: String,
    /// The origin of its server.
    endpoint: String,
    /// The DID of the caller.
    registered_by: String,
    expires_at: Timestamp,
    /// Attempts that failed since the last one that did not.
    failures: i64,
    next_attempt_at: Timestamp,
}

impl From<RegistrationRow> for SpaceRegistration {
    fn from(row: RegistrationRow) -> Self {
        Self {
            service: row.service,
            endpoint: row.endpoint,
            registered_by: row.registered_by,
            expires_at: row.expires_at,
            failures: row.failures,
            next_attempt_at: row.next_attempt_at,
        }
    }
}

/// `GET /admin/spaces/{did}/{type}/{skey}/registrations`: the registrations that have not expired, by service.
pub async fn list(app: Arc<App>, _admin: Admin, request: Request) -> JsonResult<Vec<SpaceRegistration>> {
    let rows = app.spaces.registrations(&named(&request)?).await?;
    Ok(Json(rows.into_iter().map(SpaceRegistration::from).collect()))
}
