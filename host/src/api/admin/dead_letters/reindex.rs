//! `POST /admin/dead-letters/{id}/reindex`: the record as its PDS has it now goes through everything an event goes
//! through.

use std::sync::Arc;

use http::StatusCode;
use serde_json::json;

use crate::access::Admin;
use crate::app::App;
use crate::event_scripts::event_of;
use crate::events::Event;
use crate::http::{Error, Request, Response, response};
use crate::indexing::fetch::{self, Found};
use crate::indexing::{Action, RecordEvent};
use crate::store::dead_letters::LetterRow;
use crate::store::index::{Change, Delete, Upsert};

pub async fn handle(app: Arc<App>, admin: Admin, request: Request) -> Result<Response, Error> {
    let row = super::find(&app, request.param("id")).await?;
    one(&app, &admin, &row).await?;
    Ok(response::json(StatusCode::OK, &json!({ "ok": true })))
}

pub(super) async fn one(app: &App, admin: &Admin, row: &LetterRow) -> Result<(), Error> {
    super::unresolved(row)?;
    let done = reindex(app, row).await;
    app.events.record(Event::DeadLetterReindexed {
        actor: admin.did.to_string(),
        id: row.id.to_string(),
        subject: row.letter.uri.clone(),
        error: done.as_ref().err().map(ToString::to_string),
    });
    done
}

async fn reindex(app: &App, row: &LetterRow) -> Result<(), Error> {
    let event = match event_of(&row.letter) {
        Ok(event) => event,
        Err(error) => return Err(super::refused(app, row, error).await),
    };
    let uri = event.change.uri();
    let fetched = fetch::record(&app.net, &app.resolver, &uri).await.map_err(|error| {
        let told =
            Error::new(StatusCode::INTERNAL_SERVER_ERROR, "the record could not be fetched from its PDS");
        Error { cause: Some(Box::new(error)), ..told }
    })?;
    match app.triggers.index(current(event, fetched)).await {
        Ok(stored) => super::store(app, row, stored.change).await,
        Err(error) => Err(super::refused(app, row, error).await),
    }
}

/// The event that leads to what the PDS has.
fn current(event: RecordEvent, found: Option<Found>) -> RecordEvent {
    let (did, collection, rkey, rev) = match event.change {
        Change::Upsert(Upsert { did, collection, rkey, rev, .. })
        | Change::Delete(Delete { did, collection, rkey, rev }) => (did, collection, rkey, rev),
    };
    let Some(Found { record, cid, cid_verified, refs }) = found else {
        let change = Change::Delete(Delete { did, collection, rkey, rev });
        return RecordEvent { action: Action::Delete, change };
    };
    let action = if event.action == Action::Delete { Action::Create } else { event.action };
    let change = Change::Upsert(Upsert { did, collection, rkey, rev, cid, cid_verified, record, refs });
    RecordEvent { action, change }
}
