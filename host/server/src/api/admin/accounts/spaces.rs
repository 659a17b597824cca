//! `/admin/accounts/{did}/spaces`: the spaces of an account.

use std::sync::Arc;

use crate::access::Admin;
use crate::api::admin::spaces::{SpaceList, page_of};
use crate::api::answer::JsonResult;
use crate::api::input::WithQuery;
use crate::api::paging::Page;
use crate::app::App;
use belvedere_instance::spaces::Selection;
use belvedere_protocol::atproto::Did;
use belvedere_web::http::Error;

/// `GET /admin/accounts/{did}/spaces`: the spaces that an account has created, is a member of (also through other spaces), or
/// has a repo in.
pub async fn list(app: Arc<App>, _admin: Admin, request: WithQuery<Page>) -> JsonResult<SpaceList> {
    let did = Did::try_from(request.param("did")).map_err(|error| Error::bad_request(error.to_string()))?;
    page_of(&app, &Selection::With(did), &request.parameters()?).await
}
