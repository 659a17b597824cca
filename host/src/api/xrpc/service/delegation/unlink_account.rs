//! `POST delegation.unlinkAccount`: by its owner or by the account itself. Its delegates and its sessions under the
//! application go with it; an account that does it itself stays logged in where it does it.

use std::sync::Arc;

use http::StatusCode;
use serde::Deserialize;
use serde_json::json;

use super::did;
use crate::access::ClientUser;
use crate::access::delegation;
use crate::app::App;
use crate::events::Event;
use crate::http::{Error, Request, Response, response};
use crate::store::{delegates, oauth_sessions};

#[derive(Deserialize)]
struct Body {
    did: String,
}

pub async fn handle(app: Arc<App>, caller: ClientUser, request: Request) -> Result<Response, Error> {
    let body: Body = request.json()?;
    let account = did("did", &body.did)?;
    let client = &caller.client.id;
    if !delegation::part(&app.access, client, &account, &caller.did).await?.may_unlink() {
        return Err(Error::forbidden("that takes the role owner of this account, or the account itself"));
    }
    delegates::unlink(&app.db, client, account.as_str()).await?;
    for device in oauth_sessions::devices(&app.db, client, account.as_str()).await? {
        if *device.id != *caller.session {
            app.vault.end(&device.id).await?;
        }
    }
    let (actor, account) = (caller.did.to_string(), account.to_string());
    app.events.record(Event::AccountUnlinked { actor, account });
    Ok(response::json(StatusCode::OK, &json!({})))
}
