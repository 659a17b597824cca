//! `GET /external-auth/accounts`: the accounts that the user has linked, newest first.

use std::sync::Arc;

use http::StatusCode;
use serde_json::{Value, json};

use crate::access::AccountCaller;
use crate::app::App;
use belvedere_scripting::plugins::accounts::SyncState;
use belvedere_storage::store::external_accounts::AccountRow;
use belvedere_web::http::{Error, Request, Response, response};

pub async fn handle(app: Arc<App>, caller: AccountCaller, _request: Request) -> Result<Response, Error> {
    let accounts = app.accounts.list(&caller.user.did).await?;
    let shown: Vec<Value> = accounts.iter().map(shown).collect();
    Ok(response::json(StatusCode::OK, &shown))
}

/// The view of an account.
pub(in crate::api) fn shown(row: &AccountRow) -> Value {
    let sync = SyncState::of(row);
    let error = sync.error.map(|(code, message)| json!({ "error": code, "message": message }));
    json!({
        "plugin_id": row.plugin_id,
        "account_id": row.account_id,
        "display_name": row.display_name,
        "profile_url": row.profile_url,
        "avatar_url": row.avatar_url,
        "status": row.status.as_str(),
        "collections": row.collections,
        "expires_at": row.expires_at,
        "created_at": row.created_at,
        "updated_at": row.updated_at,
        "synced_at": row.synced_at,
        "sync": {
            "status": row.sync_status.as_str(),
            "processed": sync.processed,
            "written": sync.written,
            "skipped": sync.skipped,
            "error": error,
        },
    })
}
