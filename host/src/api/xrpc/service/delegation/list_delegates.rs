//! `GET delegation.listDelegates?accountDid=`: the delegates of an account, for each of them and for the account itself.

use std::sync::Arc;

use http::StatusCode;
use serde_json::{Value, json};

use super::query_did;
use crate::access::{ClientUser, delegation};
use crate::app::App;
use crate::http::{Error, Request, Response, response};
use crate::store::delegates;

pub async fn handle(app: Arc<App>, caller: ClientUser, request: Request) -> Result<Response, Error> {
    let (account, client) = (query_did(&request, "accountDid")?, &caller.client.id);
    delegation::part(&app.access, client, &account, &caller.did).await?;
    let rows = delegates::of_account(&app.db, client, account.as_str()).await?;
    let delegates: Vec<Value> = rows
        .iter()
        .map(|row| {
            json!({ "userDid": row.user_did, "role": row.role, "grantedBy": row.granted_by,
                "createdAt": row.created_at })
        })
        .collect();
    Ok(response::json(StatusCode::OK, &json!({ "delegates": delegates })))
}
