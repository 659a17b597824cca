//! `GET /api/setup/resolve?q=`: finds an account by its handle or DID, to attach it.

use std::sync::Arc;

use http::StatusCode;
use serde::Serialize;

use crate::access::Admin;
use crate::app::App;
use crate::methods::get_profile::{self, Profile};
use belvedere_protocol::atproto::{Did, typed};
use belvedere_web::http::{Error, Request, Response, response};

#[derive(Serialize)]
struct Found {
    did: String,
    handle: Option<String>,
    display_name: Option<String>,
    avatar: Option<String>,
}

/// The account, or none.
pub async fn handle(app: Arc<App>, _admin: Admin, request: Request) -> Result<Response, Error> {
    let query = request.query("q").filter(|text| !typed(text).is_empty());
    let query = query.ok_or_else(|| Error::bad_request("q is missing: a handle or a DID"))?;
    let found = match app.core.resolver.account(&query).await {
        Ok(did) => found(&app, did).await,
        Err(error) if error.is_temporary() => return Err(error.into()),
        Err(_) => None,
    };
    Ok(response::json(StatusCode::OK, &found.into_iter().collect::<Vec<_>>()))
}

/// An account whose PDS does not answer is found without its profile.
async fn found(app: &App, did: Did) -> Option<Found> {
    let document = app.core.resolver.resolve(&did).await.ok()?;
    let profile = get_profile::read(app, &document).await.unwrap_or_default();
    let Profile { display_name, avatar_url, .. } = profile;
    let handle = document.handle().map(str::to_owned);
    Some(Found { did: did.to_string(), handle, display_name, avatar: avatar_url })
}
