//! `POST /admin/dead-letters/{id}/dismiss`: seen, and nothing to be done. Doing it again changes nothing.

use std::sync::Arc;

use http::StatusCode;
use serde_json::json;

use crate::access::Admin;
use crate::app::App;
use crate::events::Event;
use crate::http::{Error, Request, Response, response};
use crate::store::dead_letters::{self, LetterRow};

pub async fn handle(app: Arc<App>, admin: Admin, request: Request) -> Result<Response, Error> {
    let row = super::find(&app, request.param("id")).await?;
    one(&app, &admin, &row).await?;
    Ok(response::json(StatusCode::OK, &json!({ "ok": true })))
}

pub(super) async fn one(app: &App, admin: &Admin, row: &LetterRow) -> Result<(), Error> {
    if row.resolved_at.is_some() {
        return Ok(());
    }
    dead_letters::resolve(&app.db, row.id, app.clock.now()).await?;
    app.events.record(Event::DeadLetterDismissed {
        actor: admin.did.to_string(),
        id: row.id.to_string(),
        subject: row.letter.uri.clone(),
    });
    Ok(())
}
