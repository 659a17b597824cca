//! `GET /external-auth/accounts`: the accounts that the user has linked, newest first.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;

use crate::access::AccountCaller;
use crate::api::answer::{Json, JsonResult};
use crate::app::App;
use belvedere_base::clock::Timestamp;
use belvedere_scripting::plugins::accounts::SyncState;
use belvedere_storage::store::external_accounts::{AccountRow, AccountStatus, SyncStatus};
use belvedere_web::http::Request;

#[derive(Debug, Serialize, JsonSchema)]
pub struct LinkedAccount {
    plugin_id: String,
    account_id: String,
    display_name: Option<String>,
    profile_url: Option<String>,
    avatar_url: Option<String>,
    status: AccountStatus,
    collections: Vec<String>,
    expires_at: Option<Timestamp>,
    created_at: Timestamp,
    updated_at: Timestamp,
    synced_at: Option<Timestamp>,
    sync: AccountSync,
}

/// The last sync of an account.
#[derive(Debug, Serialize, JsonSchema)]
struct AccountSync {
    status: SyncStatus,
    processed: i64,
    written: i64,
    skipped: i64,
    error: Option<SyncError>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct SyncError {
    error: String,
    message: String,
}

impl From<AccountRow> for LinkedAccount {
    fn from(row: AccountRow) -> Self {
        let SyncState { processed, written, skipped, error, .. } = SyncState::of(&row);
        let error = error.map(|(error, message)| SyncError { error, message });
        Self {
            plugin_id: row.plugin_id,
            account_id: row.account_id,
            display_name: row.display_name,
            profile_url: row.profile_url,
            avatar_url: row.avatar_url,
            status: row.status,
            collections: row.collections,
            expires_at: row.expires_at,
            created_at: row.created_at,
            updated_at: row.updated_at,
            synced_at: row.synced_at,
            sync: AccountSync { status: row.sync_status, processed, written, skipped, error },
        }
    }
}

pub async fn handle(
    app: Arc<App>,
    caller: AccountCaller,
    _request: Request,
) -> JsonResult<Vec<LinkedAccount>> {
    let accounts = app.accounts.list(&caller.user.did).await?;
    Ok(Json(accounts.into_iter().map(LinkedAccount::from).collect()))
}
