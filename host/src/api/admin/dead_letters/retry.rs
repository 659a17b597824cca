//! `POST /admin/dead-letters/{id}/retry`: the script that is bound now decides about the event as it came, and its word
//! is stored.

use std::sync::Arc;

use http::StatusCode;
use serde_json::json;

use crate::access::Admin;
use crate::app::App;
use crate::events::Event;
use crate::http::{Error, Request, Response, response};
use crate::store::dead_letters::LetterRow;

pub async fn handle(app: Arc<App>, admin: Admin, request: Request) -> Result<Response, Error> {
    let row = super::find(&app, request.param("id")).await?;
    one(&app, &admin, &row).await?;
    Ok(response::json(StatusCode::OK, &json!({ "ok": true })))
}

pub(super) async fn one(app: &App, admin: &Admin, row: &LetterRow) -> Result<(), Error> {
    super::unresolved(row)?;
    let done = match app.triggers.again(row).await {
        Ok(stored) => super::store(app, row, stored.change).await,
        Err(error) => Err(super::refused(app, row, error).await),
    };
    app.events.record(Event::DeadLetterRetried {
        actor: admin.did.to_string(),
        id: row.id.to_string(),
        subject: row.letter.uri.clone(),
        error: done.as_ref().err().map(ToString::to_string),
    });
    done
}
