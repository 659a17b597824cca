//! `/admin/spaces/{did}/{type}/{skey}/records`: the records of a space, for an operator with an inspection.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{invalid, named};
use crate::access::Admin;
use crate::api::answer::{Json, JsonResult};
use crate::api::input::WithQuery;
use crate::api::paging::{Page, given};
use crate::app::App;
use belvedere_base::clock::Timestamp;
use belvedere_instance::spaces::{Inspected, InspectedPage};
use belvedere_protocol::atproto::Did;
use belvedere_protocol::spaces::SpaceRecordUri;
use belvedere_storage::query::PageSize;
use belvedere_web::http::Error;

#[derive(Debug, Serialize, JsonSchema)]
struct InspectedRecord {
    uri: String,
    cid: String,
    value: Box<RawValue>,
    indexed_at: Timestamp,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct InspectedRecords {
    records: Vec<InspectedRecord>,
    /// Null on the last page.
    cursor: Option<String>,
}

impl TryFrom<InspectedPage> for InspectedRecords {
    type Error = Error;

    fn try_from(InspectedPage { records, has_more }: InspectedPage) -> Result<Self, Error> {
        let cursor = records.last().filter(|_| has_more).map(|(uri, _)| uri.to_string());
        let record = |(uri, record): Inspected| {
            let text = record.text.unwrap_or_else(|| "null".to_owned());
            let value = RawValue::from_string(text).map_err(Error::internal)?;
            let (uri, cid) = (uri.to_string(), record.cid.to_string());
            Ok(InspectedRecord { uri, cid, value, indexed_at: record.indexed_at })
        };
        Ok(Self { records: records.into_iter().map(record).collect::<Result<_, Error>>()?, cursor })
    }
}

/// The record with which the page before ended.
pub(in crate::api::admin) fn after(page: &Page) -> Result<Option<SpaceRecordUri>, Error> {
    page.cursor().map(|uri| uri.parse().map_err(invalid)).transpose()
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct InspectedQuery {
    /// The DID of an author. Absent: all whose accounts are active.
    repo: Option<String>,
    #[serde(flatten)]
    page: Page,
}

/// `GET /admin/spaces/{did}/{type}/{skey}/records`: the records of a space, by path. The caller needs an inspection of the space,
/// or of the account of the author. Each page is an event that names its records.
pub async fn list(
    app: Arc<App>,
    admin: Admin,
    request: WithQuery<InspectedQuery>,
) -> JsonResult<InspectedRecords> {
    let inspector = app.spaces.inspector(admin.did)?;
    let (uri, InspectedQuery { repo, page }) = (named(&request)?, request.parameters()?);
    let repo = given(repo.as_deref()).map(|did| Did::try_from(did.as_str())).transpose().map_err(invalid)?;
    let limit = page.limit(PageSize::LOGS)?;
    let shown = inspector.in_space(&uri, repo.as_ref(), after(&page)?, limit).await?;
    shown.try_into().map(Json)
}
