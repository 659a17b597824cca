//! `/admin/spaces/{did}/{type}/{skey}/invites`: the invites to a space, without their tokens.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;

use super::{cut, named};
use crate::access::Admin;
use crate::api::answer::{Empty, EmptyResult, Json, JsonResult};
use crate::api::input::WithQuery;
use crate::api::paging::{Keyset, Page};
use crate::app::App;
use belvedere_base::clock::Timestamp;
use belvedere_instance::events::Event;
use belvedere_instance::spaces::Viewer;
use belvedere_storage::query::PageSize;
use belvedere_storage::store::spaces::invites::InviteRow;
use belvedere_web::http::Request;

#[derive(Debug, Serialize, JsonSchema)]
pub struct SpaceInvite {
    id: String,
    #[schemars(extend("enum" = ["nothing", "own", "everything"]))]
    reads: &'static str,
    writes: bool,
    /// Null: any number.
    max_uses: Option<i64>,
    uses: i64,
    /// Null: never.
    expires_at: Option<Timestamp>,
    revoked_at: Option<Timestamp>,
    #[schemars(extend("format" = "did"))]
    created_by: String,
    created_at: Timestamp,
}

impl From<InviteRow> for SpaceInvite {
    fn from(row: InviteRow) -> Self {
        Self {
            id: row.id,
            reads: row.access.reads.as_str(),
            writes: row.access.writes,
            max_uses: row.max_uses,
            uses: row.uses,
            expires_at: row.expires_at,
            revoked_at: row.revoked_at,
            created_by: row.created_by,
            created_at: row.created_at,
        }
    }
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct SpaceInvites {
    invites: Vec<SpaceInvite>,
    /// Null on the last page.
    cursor: Option<String>,
}

/// `GET /admin/spaces/{did}/{type}/{skey}/invites`: the invites to a space that this instance hosts, newest first.
pub async fn list(app: Arc<App>, admin: Admin, request: WithQuery<Page>) -> JsonResult<SpaceInvites> {
    let (uri, page) = (named(&request)?, request.parameters()?);
    let (limit, before) = (page.limit(PageSize::LOGS)?, page.keyset()?);
    let before = before.as_ref().map(|before| (before.time, before.id.as_str()));
    let viewer = Viewer::operator(admin.did);
    let mut rows = app.spaces.invites(&uri, &viewer, before, PageSize::rows_read(limit)).await?;
    let cursor = cut(&mut rows, limit, |row| Keyset::cursor(row.created_at, &row.id));
    Ok(Json(SpaceInvites { invites: rows.into_iter().map(SpaceInvite::from).collect(), cursor }))
}

/// `DELETE /admin/spaces/{did}/{type}/{skey}/invites/{id}`: revokes an invite. Accounts that have used it stay members.
pub async fn revoke(app: Arc<App>, admin: Admin, request: Request) -> EmptyResult {
    let (uri, id) = (named(&request)?, request.param("id"));
    app.spaces.revoke_invite(&uri, &Viewer::operator(admin.did.clone()), id).await?;
    let (actor, space) = (admin.did.to_string(), uri.to_string());
    app.events.record(Event::SpaceInviteRevoked { actor, space, id: id.to_owned() });
    Ok(Empty)
}
