//! `POST delegation.removeDelegate`: never the owner; an admin removes members, the owner and the account itself remove
//! admins too, and every delegate may leave.

use std::sync::Arc;

use http::StatusCode;
use serde::Deserialize;
use serde_json::json;

use super::did;
use crate::access::ClientUser;
use crate::access::delegation::{self, Role};
use crate::app::App;
use crate::events::Event;
use crate::http::{Error, Request, Response, response};
use crate::store::delegates;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Body {
    account_did: String,
    user_did: String,
}

pub async fn handle(app: Arc<App>, caller: ClientUser, request: Request) -> Result<Response, Error> {
    let body: Body = request.json()?;
    let (account, user) = (did("accountDid", &body.account_did)?, did("userDid", &body.user_did)?);
    let client = &caller.client.id;
    let own = delegation::part(&app.access, client, &account, &caller.did).await?;
    let other = delegates::of_account(&app.db, client, account.as_str()).await?;
    let other = other.into_iter().find(|row| row.user_did == user.as_str());
    let other = other.and_then(|row| Role::from_name(&row.role));
    let other = other.ok_or_else(|| Error::not_found("the user is no delegate of this account"))?;
    if other == Role::Owner {
        return Err(Error::forbidden("the owner can't be removed: unlink the account instead"));
    }
    if user != caller.did && !own.may_remove(other) {
        return Err(Error::forbidden("only those of a higher role may remove a delegate"));
    }
    delegates::remove(&app.db, client, account.as_str(), user.as_str()).await?;
    app.events.record(Event::DelegateRemoved {
        actor: caller.did.to_string(),
        user: user.to_string(),
        account: account.to_string(),
    });
    Ok(response::json(StatusCode::OK, &json!({})))
}
