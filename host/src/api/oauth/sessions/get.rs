//! `GET /oauth/sessions/{did}`: what a session may do: of the scopes it was registered with those that the application
//! and its parent still have. By DPoP the caller's own session; by the client's secret the user's newest.

use std::sync::Arc;

use http::StatusCode;
use serde::Serialize;

use super::did;
use crate::access::{Holder, scopes};
use crate::app::App;
use crate::http::{Error, Request, Response, response};
use crate::store::oauth_sessions;

#[derive(Serialize)]
struct Answer<'a> {
    did: &'a str,
    scopes: Vec<&'a str>,
}

pub async fn handle(app: Arc<App>, holder: Holder, request: Request) -> Result<Response, Error> {
    let did = did(&request)?;
    holder.may_see(&did)?;
    let scopes = match &holder {
        Holder::Device(_, session) => session.scopes.clone(),
        Holder::Application(client) => {
            let found = oauth_sessions::newest(&app.db, did.as_str(), Some(&client.id)).await?;
            found.ok_or_else(|| Error::not_found("DPoP session not found"))?.scopes
        }
    };
    let scopes = scopes::left(&app.access, holder.client(), &scopes).await?;
    let scopes = scopes.split_ascii_whitespace().collect();
    Ok(response::json(StatusCode::OK, &Answer { did: did.as_str(), scopes }))
}
