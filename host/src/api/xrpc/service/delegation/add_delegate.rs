//! `POST delegation.addDelegate`: another user writes for the account (`admin`), or is told of it (`member`). Owners name
//! both, admins members.

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
use crate::store::StoreError;
use crate::store::delegates::{self, DelegateRow};

/// Delegates of one account: more than any editorial team, few enough to be read whole.
const MOST: usize = 200;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Body {
    account_did: String,
    user_did: String,
    role: String,
}

pub async fn handle(app: Arc<App>, caller: ClientUser, request: Request) -> Result<Response, Error> {
    let body: Body = request.json()?;
    let (account, user) = (did("accountDid", &body.account_did)?, did("userDid", &body.user_did)?);
    let Some(role @ (Role::Admin | Role::Member)) = Role::from_name(&body.role) else {
        return Err(Error::bad_request("role must be admin or member"));
    };
    let client = &caller.client.id;
    let needed = if role == Role::Admin { Role::Owner } else { Role::Admin };
    delegation::at_least(&app.access, client, &account, &caller.did, needed).await?;
    let known = delegates::of_account(&app.db, client, account.as_str()).await?;
    if known.len() >= MOST {
        return Err(Error::bad_request(format!("the account has {MOST} delegates already")));
    }
    let row = DelegateRow {
        account_did: account.to_string(),
        user_did: user.to_string(),
        role: role.as_str().to_owned(),
        granted_by: caller.did.to_string(),
        created_at: app.clock.now(),
    };
    delegates::add(&app.db, client, &row).await.map_err(|error| match error {
        StoreError::Conflict(_) => Error::conflict("the user is already a delegate of this account"),
        other => Error::from(other),
    })?;
    app.events.record(Event::DelegateAdded {
        actor: caller.did.to_string(),
        user: row.user_did,
        account: row.account_did,
        role: role.as_str(),
    });
    Ok(response::json(StatusCode::CREATED, &json!({})))
}
