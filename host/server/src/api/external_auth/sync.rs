//! `POST /external-auth/{plugin}/sync`: writes records from the account into the user's repo. Joins a sync that runs.

use std::sync::Arc;

use http::StatusCode;
use serde_json::json;

use crate::access::AccountCaller;
use crate::app::App;
use belvedere_scripting::plugins::accounts::SyncState;
use belvedere_web::http::{Error, Request, Response, response};

/// Answers 200 when the sync has ended, and 202 when it goes on in the background.
pub async fn handle(app: Arc<App>, caller: AccountCaller, request: Request) -> Result<Response, Error> {
    let state = app.accounts.sync(&caller.user, request.param("plugin")).await?;
    let SyncState { is_running, processed, written, skipped, error } = state;
    if let Some((code, text)) = error {
        return Err(Error::new(status_of(&code), code).with_message(text));
    }
    let (status, name) = if is_running { (StatusCode::ACCEPTED, "running") } else { (StatusCode::OK, "ok") };
    let body = json!({ "status": name, "processed": processed, "written": written, "skipped": skipped });
    Ok(response::json(status, &body))
}

/// The status of an error that ended a sync.
fn status_of(code: &str) -> StatusCode {
    match code {
        "no-session" => StatusCode::UNAUTHORIZED,
        "out-of-scope" => StatusCode::FORBIDDEN,
        "needs-reauth" => StatusCode::CONFLICT,
        _ => StatusCode::BAD_GATEWAY,
    }
}
