//! `POST /external-auth/{plugin}/connect {config, collections?}`: links an account by what the user typed, such as an API
//! key.

use std::sync::Arc;

use http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::access::AccountCaller;
use crate::app::App;
use belvedere_web::http::{Error, Request, Response, response};

#[derive(Deserialize)]
struct Body {
    config: Value,
    /// Those that a sync may write; all that the plugin may write if it is absent.
    collections: Option<Vec<String>>,
}

pub async fn handle(app: Arc<App>, caller: AccountCaller, request: Request) -> Result<Response, Error> {
    let Body { config, collections } = request.json()?;
    let plugin = request.param("plugin");
    let linked = app.accounts.connect(&caller.user, plugin, &config, collections).await?;
    let body = json!({
        "status": "connected",
        "account_id": linked.account_id,
        "display_name": linked.display_name,
    });
    Ok(response::json(StatusCode::OK, &body))
}
