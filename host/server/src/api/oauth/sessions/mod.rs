//! `/oauth/sessions`: registers, shows and ends the sessions of applications' users.

pub mod create;
pub mod devices;

use std::sync::Arc;

use http::StatusCode;
use serde::Serialize;

use crate::access::{SessionAccess, scopes};
use crate::app::App;
use belvedere_instance::events::Event;
use belvedere_protocol::atproto::Did;
use belvedere_storage::store::oauth_sessions;
use belvedere_web::http::{Error, Request, Response, response};

/// The DID in the path. Clients send it either verbatim, where `%3A` in a did:web is part of the DID, or
/// percent-encoded, where that percent sign becomes `%25`, which no DID contains.
fn did(request: &Request) -> Result<Did, Error> {
    let raw = request.uri().path().split('/').nth(3).unwrap_or_default();
    let is_verbatim = !raw.contains("%25") && Did::try_from(raw).is_ok();
    Did::try_from(if is_verbatim { raw } else { request.param("did") })
        .map_err(|_| Error::bad_request("the path does not name a DID"))
}

#[derive(Serialize)]
struct Answer<'a> {
    did: &'a str,
    scopes: Vec<&'a str>,
}

/// `GET /oauth/sessions/{did}`: the scopes of a session: those that it was registered with and that the application and
/// its parent still have. By DPoP the caller's own session; by the client's secret the user's newest.
pub async fn get(app: Arc<App>, holder: SessionAccess, request: Request) -> Result<Response, Error> {
    let did = did(&request)?;
    holder.check_access_to(&did)?;
    let scopes = match &holder {
        SessionAccess::Device(_, session) => session.scopes.clone(),
        SessionAccess::Application(client) => {
            let found = oauth_sessions::newest(&app.db, did.as_str(), Some(&client.id)).await?;
            found.ok_or_else(|| Error::not_found("DPoP session not found"))?.scopes
        }
    };
    let scopes = scopes::remaining(&app.access, holder.client(), &scopes).await?;
    let scopes = scopes.split_ascii_whitespace().collect();
    Ok(response::json(StatusCode::OK, &Answer { did: did.as_str(), scopes }))
}

/// `DELETE /oauth/sessions/{did}`: logs out. By DPoP ends the caller's own session; by the client's secret all of the
/// user's sessions under the client, of which there may be none. They are revoked at the authorization server too; if
/// that fails, the tokens expire there.
pub async fn delete(app: Arc<App>, holder: SessionAccess, request: Request) -> Result<Response, Error> {
    let did = did(&request)?;
    holder.check_access_to(&did)?;
    let mut ended = 0;
    match &holder {
        SessionAccess::Device(_, session) => ended += u32::from(app.sessions.vault.end(&session.id).await?),
        SessionAccess::Application(client) => {
            for device in oauth_sessions::devices(&app.db, &client.id, did.as_str()).await? {
                ended += u32::from(app.sessions.vault.end(&device.id).await?);
            }
        }
    }
    if ended > 0 {
        let client_key = holder.client().key.clone();
        app.events.record(Event::DpopSessionDeleted { did: did.to_string(), client_key });
    }
    Ok(response::empty(StatusCode::NO_CONTENT))
}
