//! `GET /admin/plugins/{id}/accounts`: the accounts that all users have linked with a plugin.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;

use crate::access::Admin;
use crate::api::answer::{Json, JsonResult};
use crate::api::external_auth::accounts::LinkedAccount;
use crate::api::input::WithQuery;
use crate::api::paging::Page;
use crate::app::App;
use belvedere_storage::query::PageSize;
use belvedere_storage::store::external_accounts::{self, AccountRow};

#[derive(Debug, Serialize, JsonSchema)]
pub struct PluginAccounts {
    accounts: Vec<UserAccount>,
    /// Null on the last page.
    cursor: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct UserAccount {
    #[schemars(extend("format" = "did"))]
    did: String,
    #[serde(flatten)]
    account: LinkedAccount,
}

/// In the order of their ids, which are random: pages neither repeat an account nor leave one out.
pub async fn list(app: Arc<App>, _admin: Admin, request: WithQuery<Page>) -> JsonResult<PluginAccounts> {
    let plugin = super::find(&app, request.param("id")).await?;
    let page = request.parameters()?;
    let (limit, after) = (page.limit(PageSize::LOGS)?, page.cursor().unwrap_or_default());
    let mut rows = external_accounts::of_plugin(&app.db, &plugin.id, &after, limit + 1).await?;
    let more = rows.len() > limit as usize;
    rows.truncate(limit as usize);
    let cursor = rows.last().filter(|_| more).map(|row| row.id.clone());
    let account = |row: AccountRow| UserAccount { did: row.did.clone(), account: row.into() };
    Ok(Json(PluginAccounts { accounts: rows.into_iter().map(account).collect(), cursor }))
}
