//! `/admin/spaces/inspections`: grants to operators who inspect records in spaces for a limited time.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{cut, invalid};
use crate::access::Admin;
use crate::api::answer::{Empty, EmptyResult, Json, JsonResult};
use crate::api::input::{WithBody, WithQuery};
use crate::api::paging::{Keyset, Page};
use crate::app::App;
use belvedere_instance::spaces::{InspectionRequest, Subject};
use belvedere_protocol::atproto::Did;
use belvedere_storage::query::PageSize;
use belvedere_storage::store::spaces::inspections::{InspectionRow, Scope};
use belvedere_web::http::Request;

#[derive(Debug, Serialize, JsonSchema)]
pub struct SpaceInspections {
    inspections: Vec<InspectionRow>,
    /// Null on the last page.
    cursor: Option<String>,
}

/// `GET /admin/spaces/inspections`: all grants, also those that have ended, newest first. The event log has what each has shown.
pub async fn list(app: Arc<App>, _admin: Admin, request: WithQuery<Page>) -> JsonResult<SpaceInspections> {
    let page = request.parameters()?;
    let (limit, before) = (page.limit(PageSize::LOGS)?, page.keyset()?);
    let before = before.as_ref().map(|before| (before.time, before.id.as_str()));
    let mut inspections = app.spaces.inspections(before, PageSize::rows_read(limit)).await?;
    let cursor = cut(&mut inspections, limit, |row| Keyset::cursor(row.created_at, &row.id));
    Ok(Json(SpaceInspections { inspections, cursor }))
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct NewInspection {
    scope: Scope,
    /// The address of a space, or the DID of an account.
    subject: String,
    /// The DID of the operator who may read. Absent: the caller.
    operator: Option<String>,
    /// 1 to 2000 characters. It is an event.
    reason: String,
    /// Seconds from now, at most a day.
    expires_in: i64,
}

/// `POST /admin/spaces/inspections`: grants an inspection of a space, or of an account in all spaces, to an operator.
pub async fn grant(
    app: Arc<App>,
    admin: Admin,
    request: WithBody<NewInspection>,
) -> JsonResult<InspectionRow, 201> {
    let inspector = app.spaces.inspector(admin.did.clone())?;
    let body = request.json()?;
    let subject = match body.scope {
        Scope::Space => Subject::Space(body.subject.parse().map_err(invalid)?),
        Scope::Account => Subject::Account(Did::try_from(body.subject.as_str()).map_err(invalid)?),
    };
    let operator = match body.operator {
        Some(did) => Did::try_from(did.as_str()).map_err(invalid)?,
        None => admin.did,
    };
    let request = InspectionRequest { subject, operator, reason: body.reason, seconds: body.expires_in };
    Ok(Json(inspector.grant(request).await?))
}

/// `DELETE /admin/spaces/inspections/{id}`: ends an inspection.
pub async fn revoke(app: Arc<App>, admin: Admin, request: Request) -> EmptyResult {
    app.spaces.revoke_inspection(&admin.did, request.param("id")).await?;
    Ok(Empty)
}
