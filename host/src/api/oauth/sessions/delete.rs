//! `DELETE /oauth/sessions/{did}`: log out. By DPoP the one session; by the client's secret all of the user's under the
//! client, and that there are none is fine. The session ends at the authorization server too, as far as that lets us.

use std::sync::Arc;

use http::StatusCode;

use super::did;
use crate::access::Holder;
use crate::app::App;
use crate::events::Event;
use crate::http::{Error, Request, Response, response};
use crate::store::oauth_sessions;

pub async fn handle(app: Arc<App>, holder: Holder, request: Request) -> Result<Response, Error> {
    let did = did(&request)?;
    holder.may_see(&did)?;
    let mut ended = 0;
    match &holder {
        Holder::Device(_, session) => ended += u32::from(app.vault.end(&session.id).await?),
        Holder::Application(client) => {
            for device in oauth_sessions::devices(&app.db, &client.id, did.as_str()).await? {
                ended += u32::from(app.vault.end(&device.id).await?);
            }
        }
    }
    if ended > 0 {
        let client_key = holder.client().key.clone();
        app.events.record(Event::DpopSessionDeleted { did: did.to_string(), client_key });
    }
    Ok(response::empty(StatusCode::NO_CONTENT))
}
