//! `/admin/spaces`: permissioned spaces, and what operators do in them. A path names a space by the parts of its address, none of
//! which has a slash: authority, type and key (docs/adr/0114-spaces-in-paths-of-the-admin-api.md).

pub mod inspections;
pub mod invites;
pub mod members;
pub mod records;
pub mod registrations;
pub mod space;

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::access::Admin;
use crate::api::answer::{Json, JsonResult};
use crate::api::input::WithQuery;
use crate::api::paging::{Page, given};
use crate::app::App;
use belvedere_base::clock::Timestamp;
use belvedere_instance::spaces::Selection;
use belvedere_protocol::atproto::Did;
use belvedere_protocol::spaces::SpaceUri;
use belvedere_storage::query::PageSize;
use belvedere_storage::store::spaces::space::SpaceRow;
use belvedere_web::http::{Error, Request};

/// The space that a path names.
fn named(request: &Request) -> Result<SpaceUri, Error> {
    let [did, kind, skey] = ["did", "type", "skey"].map(|part| request.param(part));
    format!("at://{did}/space/{kind}/{skey}").parse().map_err(invalid)
}

fn invalid(error: impl ToString) -> Error {
    Error::bad_request(error.to_string())
}

/// Reads one row more than a page has, so that the cursor is absent on the last page.
pub(super) fn cut<T>(rows: &mut Vec<T>, limit: u32, cursor: impl Fn(&T) -> String) -> Option<String> {
    let more = rows.len() > limit as usize;
    rows.truncate(limit as usize);
    rows.last().filter(|_| more).map(cursor)
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct SpaceSummary {
    uri: String,
    #[schemars(extend("format" = "did"))]
    creator: String,
    display_name: Option<String>,
    /// Whether this instance is the authority. A space of another host has only repos of users here.
    is_hosted: bool,
    created_at: Timestamp,
}

impl From<SpaceRow> for SpaceSummary {
    fn from(row: SpaceRow) -> Self {
        Self {
            uri: row.uri.to_string(),
            creator: row.creator.to_string(),
            display_name: row.settings.display_name,
            is_hosted: row.is_hosted,
            created_at: row.created_at,
        }
    }
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct SpaceList {
    spaces: Vec<SpaceSummary>,
    /// Null on the last page.
    cursor: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct SpaceSearch {
    /// The address of a space, or the DID of an authority or a creator.
    search: Option<String>,
    #[serde(flatten)]
    page: Page,
}

/// `GET /admin/spaces`: the spaces that are not deleted, in the order of their creation.
pub async fn list(app: Arc<App>, _admin: Admin, request: WithQuery<SpaceSearch>) -> JsonResult<SpaceList> {
    let SpaceSearch { search, page } = request.parameters()?;
    let selection = match given(search.as_deref()) {
        None => Selection::All,
        Some(did) if did.starts_with("did:") => Selection::Of(Did::try_from(did.as_str()).map_err(invalid)?),
        Some(uri) => Selection::At(uri.parse().map_err(invalid)?),
    };
    page_of(&app, &selection, &page).await
}

/// A page of the spaces of a selection.
pub(super) async fn page_of(app: &App, selection: &Selection, page: &Page) -> JsonResult<SpaceList> {
    let limit = page.limit(PageSize::LOGS)?;
    let after = page.cursor().map(|uri| uri.parse()).transpose().map_err(invalid)?;
    let mut rows = app.spaces.selected(selection, after.as_ref(), PageSize::rows_read(limit)).await?;
    let cursor = cut(&mut rows, limit, |row| row.uri.to_string());
    Ok(Json(SpaceList { spaces: rows.into_iter().map(SpaceSummary::from).collect(), cursor }))
}
