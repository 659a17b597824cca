//! `GET delegation.listAccounts`: what the caller has a part in.

use std::sync::Arc;

use http::StatusCode;
use serde_json::{Value, json};

use crate::access::ClientUser;
use crate::app::App;
use crate::http::{Error, Request, Response, response};
use crate::store::delegates;

pub async fn handle(app: Arc<App>, caller: ClientUser, _request: Request) -> Result<Response, Error> {
    let rows = delegates::of_user(&app.db, &caller.client.id, caller.did.as_str()).await?;
    let accounts: Vec<Value> = rows
        .iter()
        .map(|row| json!({ "did": row.account_did, "role": row.role, "createdAt": row.created_at }))
        .collect();
    Ok(response::json(StatusCode::OK, &json!({ "accounts": accounts })))
}
