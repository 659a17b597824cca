//! `GET /admin/plugins/{id}/accounts`: the accounts that all users have linked with a plugin.

use std::sync::Arc;

use http::StatusCode;
use serde_json::{Value, json};

use crate::access::Admin;
use crate::api::external_auth::accounts::shown;
use crate::api::paging;
use crate::app::App;
use belvedere_storage::query::PageSize;
use belvedere_storage::store::external_accounts::{self, AccountRow};
use belvedere_web::http::{Error, Request, Response, response};

/// In the order of their ids, which are random: pages neither repeat an account nor leave one out.
pub async fn list(app: Arc<App>, _admin: Admin, request: Request) -> Result<Response, Error> {
    let plugin = super::find(&app, request.param("id")).await?;
    let limit = paging::limit(&request, PageSize::LOGS)?;
    let after = paging::optional(&request, "cursor").unwrap_or_default();
    let mut rows = external_accounts::of_plugin(&app.db, &plugin.id, &after, limit + 1).await?;
    let more = rows.len() > limit as usize;
    rows.truncate(limit as usize);
    let cursor = rows.last().filter(|_| more).map(|row| row.id.clone());
    let accounts: Vec<Value> = rows.iter().map(with_user).collect();
    Ok(response::json(StatusCode::OK, &json!({ "accounts": accounts, "cursor": cursor })))
}

fn with_user(row: &AccountRow) -> Value {
    let mut account = shown(row);
    account["did"] = json!(row.did);
    account
}
