//! `POST /external-auth/{plugin}/sync`: reads the account and writes its records into the user's repo. Joins a sync
//! that runs. Answers 202 when it goes on in the background.

use std::sync::Arc;

use futures_util::future::Either;
use http::StatusCode;
use schemars::JsonSchema;
use serde::Serialize;

use crate::access::AccountCaller;
use crate::api::answer::Json;
use crate::app::App;
use belvedere_scripting::plugins::accounts::SyncState;
use belvedere_web::http::{Error, Request};

#[derive(Debug, Serialize, JsonSchema)]
pub struct SyncAnswer {
    #[schemars(extend("enum" = ["ok", "running"]))]
    status: &'static str,
    processed: i64,
    written: i64,
    skipped: i64,
}

/// Answers 200 when the sync has ended, and 202 when it goes on in the background.
pub async fn handle(
    app: Arc<App>,
    caller: AccountCaller,
    request: Request,
) -> Result<Either<Json<SyncAnswer>, Json<SyncAnswer, 202>>, Error> {
    let state = app.accounts.sync(&caller.user, request.param("plugin")).await?;
    let SyncState { is_running, processed, written, skipped, error } = state;
    if let Some((code, text)) = error {
        return Err(Error::new(status_of(&code), code).with_message(text));
    }
    let answer = |status| SyncAnswer { status, processed, written, skipped };
    Ok(if is_running { Either::Right(Json(answer("running"))) } else { Either::Left(Json(answer("ok"))) })
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
