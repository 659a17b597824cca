//! `POST /external-auth/{plugin}/connect`: links an account by what the user typed, such as an API key.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::access::AccountCaller;
use crate::api::answer::{Json, JsonResult};
use crate::api::input::WithBody;
use crate::app::App;

#[derive(Debug, Deserialize, JsonSchema)]
pub struct AccountConfig {
    config: Value,
    /// Those that a sync may write; all that the plugin may write if it is absent.
    collections: Option<Vec<String>>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct ConnectedAccount {
    status: &'static str,
    account_id: String,
    display_name: Option<String>,
}

pub async fn handle(
    app: Arc<App>,
    caller: AccountCaller,
    request: WithBody<AccountConfig>,
) -> JsonResult<ConnectedAccount> {
    let AccountConfig { config, collections } = request.json()?;
    let plugin = request.param("plugin");
    let linked = app.accounts.connect(&caller.user, plugin, &config, collections).await?;
    Ok(Json(ConnectedAccount {
        status: "connected",
        account_id: linked.account_id,
        display_name: linked.display_name,
    }))
}
