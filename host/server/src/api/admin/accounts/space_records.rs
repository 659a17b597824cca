//! `/admin/accounts/{did}/space-records`: the records of an account in spaces, for an operator with an inspection.

use std::sync::Arc;

use crate::access::Admin;
use crate::api::admin::spaces::records::{InspectedRecords, after};
use crate::api::answer::{Json, JsonResult};
use crate::api::input::WithQuery;
use crate::api::paging::Page;
use crate::app::App;
use belvedere_protocol::atproto::Did;
use belvedere_storage::query::PageSize;
use belvedere_web::http::Error;

/// `GET /admin/accounts/{did}/space-records`: the records of an account in all spaces. The caller needs an inspection of the
/// account. Each page is an event that names its records.
pub async fn list(app: Arc<App>, admin: Admin, request: WithQuery<Page>) -> JsonResult<InspectedRecords> {
    let inspector = app.spaces.inspector(admin.did)?;
    let did = Did::try_from(request.param("did")).map_err(|error| Error::bad_request(error.to_string()))?;
    let page = request.parameters()?;
    let shown = inspector.of_account(&did, after(&page)?, page.limit(PageSize::LOGS)?).await?;
    shown.try_into().map(Json)
}
