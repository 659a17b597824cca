//! `GET /api/setup/resolve`: finds an account by its handle or DID, to attach it.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::access::Admin;
use crate::api::answer::{Json, JsonResult};
use crate::api::input::WithQuery;
use crate::app::App;
use crate::methods::get_profile::{self, Profile};
use belvedere_protocol::atproto::{Did, typed};
use belvedere_web::http::Error;

#[derive(Debug, Serialize, JsonSchema)]
pub struct FoundAccount {
    did: Did,
    handle: Option<String>,
    display_name: Option<String>,
    avatar: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct AccountQuery {
    #[schemars(required)]
    q: Option<String>,
}

/// The account, or none.
pub async fn handle(
    app: Arc<App>,
    _admin: Admin,
    request: WithQuery<AccountQuery>,
) -> JsonResult<Vec<FoundAccount>> {
    let AccountQuery { q } = request.parameters()?;
    let query = q
        .filter(|text| !typed(text).is_empty())
        .ok_or_else(|| Error::bad_request("q is missing: a handle or a DID"))?;
    let found = match app.core.resolver.account(&query).await {
        Ok(did) => found(&app, did).await,
        Err(error) if error.is_temporary() => return Err(error.into()),
        Err(_) => None,
    };
    Ok(Json(found.into_iter().collect()))
}

/// An account whose PDS does not answer is found without its profile.
async fn found(app: &App, did: Did) -> Option<FoundAccount> {
    let document = app.core.resolver.resolve(&did).await.ok()?;
    let profile = get_profile::read(app, &document).await.unwrap_or_default();
    let Profile { display_name, avatar_url, .. } = profile;
    let handle = document.handle().map(str::to_owned);
    Some(FoundAccount { did, handle, display_name, avatar: avatar_url })
}
