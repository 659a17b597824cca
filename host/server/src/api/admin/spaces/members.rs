//! `/admin/spaces/{did}/{type}/{skey}/members`: the members of a space.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{cut, invalid, named};
use crate::access::Admin;
use crate::api::answer::{Empty, EmptyResult, Json, JsonResult};
use crate::api::input::WithQuery;
use crate::api::paging::Page;
use crate::app::App;
use belvedere_base::clock::Timestamp;
use belvedere_instance::events::Event;
use belvedere_instance::spaces::Viewer;
use belvedere_storage::query::PageSize;
use belvedere_storage::store::spaces::members::MemberRow;

#[derive(Debug, Serialize, JsonSchema)]
pub struct SpaceMember {
    /// A DID, or the address of a space whose members are included.
    member: String,
    is_delegation: bool,
    #[schemars(extend("enum" = ["nothing", "own", "everything"]))]
    reads: &'static str,
    writes: bool,
    /// The DID of the administrator, or of the creator of the invite.
    granted_by: String,
    created_at: Timestamp,
}

impl From<MemberRow> for SpaceMember {
    fn from(row: MemberRow) -> Self {
        Self {
            member: row.member,
            is_delegation: row.is_delegation,
            reads: row.access.reads.as_str(),
            writes: row.access.writes,
            granted_by: row.granted_by,
            created_at: row.created_at,
        }
    }
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct SpaceMembers {
    members: Vec<SpaceMember>,
    /// Null on the last page.
    cursor: Option<String>,
}

/// `GET /admin/spaces/{did}/{type}/{skey}/members`: the list of members as it is stored. Members of an included space are in its
/// list.
pub async fn list(app: Arc<App>, _admin: Admin, request: WithQuery<Page>) -> JsonResult<SpaceMembers> {
    let (uri, page) = (named(&request)?, request.parameters()?);
    let (limit, after) = (page.limit(PageSize::LOGS)?, page.cursor().unwrap_or_default());
    let mut rows = app.spaces.member_rows(&uri, &after, PageSize::rows_read(limit)).await?;
    let cursor = cut(&mut rows, limit, |row| row.member.clone());
    Ok(Json(SpaceMembers { members: rows.into_iter().map(SpaceMember::from).collect(), cursor }))
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct NamedMemberQuery {
    /// A DID, or the address of an included space.
    member: String,
}

/// `DELETE /admin/spaces/{did}/{type}/{skey}/members`: removes a member of a space that this instance hosts. Its credentials are
/// revoked.
pub async fn remove(app: Arc<App>, admin: Admin, request: WithQuery<NamedMemberQuery>) -> EmptyResult {
    let (uri, NamedMemberQuery { member }) = (named(&request)?, request.parameters()?);
    let named = member.parse().map_err(invalid)?;
    app.spaces.remove_member(&uri, &Viewer::operator(admin.did.clone()), &named).await?;
    let (actor, space) = (admin.did.to_string(), uri.to_string());
    app.events.record(Event::SpaceMemberRemoved { actor, space, member });
    Ok(Empty)
}
