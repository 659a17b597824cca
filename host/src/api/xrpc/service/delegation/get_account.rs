//! `GET delegation.getAccount?did=`: the caller's part in an account, and who linked it. The account itself may ask too;
//! its role is `account`.

use std::sync::Arc;

use http::StatusCode;
use serde_json::json;

use super::query_did;
use crate::access::{ClientUser, delegation};
use crate::app::App;
use crate::http::{Error, Request, Response, response};
use crate::store::delegates;

pub async fn handle(app: Arc<App>, caller: ClientUser, request: Request) -> Result<Response, Error> {
    let (account, client) = (query_did(&request, "did")?, &caller.client.id);
    let own = delegation::part(&app.access, client, &account, &caller.did).await?;
    let all = delegates::of_account(&app.db, client, account.as_str()).await?;
    let owner = all.into_iter().find(|row| row.role == "owner");
    let answer = json!({
        "did": account.as_str(),
        "role": own.as_str(),
        "linkedBy": owner.as_ref().map(|owner| owner.user_did.as_str()),
        "createdAt": owner.as_ref().map(|owner| owner.created_at),
    });
    Ok(response::json(StatusCode::OK, &answer))
}
