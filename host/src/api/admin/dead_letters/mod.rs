//! `/admin/dead-letters`

pub mod bulk;
pub mod count;
pub mod dismiss;
pub mod get;
pub mod list;
pub mod reindex;
pub mod retry;
mod view;

use http::StatusCode;

use crate::app::App;
use crate::event_scripts::AgainError;
use crate::http::{Error, Request};
use crate::store::dead_letters::{self, LetterFilter, LetterRow};
use crate::store::index::Change;

/// `collection` and `resolved`: absent or `false` is what is unresolved, `true` what is resolved, anything else both.
fn filter(request: &Request) -> LetterFilter {
    let resolved = match request.query("resolved").as_deref() {
        None | Some("" | "false") => Some(false),
        Some("true") => Some(true),
        Some(_) => None,
    };
    let collection = request.query("collection").filter(|collection| !collection.is_empty());
    LetterFilter { collection, resolved, before: None }
}

fn not_found() -> Error {
    Error::not_found("dead letter not found")
}

/// The letter that a path or a bulk request names. Ids are numbers, shown as text.
async fn find(app: &App, id: &str) -> Result<LetterRow, Error> {
    let id = id.parse().map_err(|_| not_found())?;
    dead_letters::get(&app.db, id).await?.ok_or_else(not_found)
}

/// A letter that can still be worked on.
fn unresolved(row: &LetterRow) -> Result<(), Error> {
    if row.resolved_at.is_some() {
        return Err(Error::not_found("the dead letter is resolved already"));
    }
    Ok(())
}

/// Makes the index what the script decided, and the letter resolved. Nothing newer is overwritten.
async fn store(app: &App, row: &LetterRow, change: Change) -> Result<(), Error> {
    let closed = |_| Error::new(StatusCode::SERVICE_UNAVAILABLE, "the server is shutting down");
    app.stream.writer().submit(change).await.map_err(closed)?;
    dead_letters::resolve(&app.db, row.id, app.clock.now()).await.map_err(Error::from).map(drop)
}

/// What the caller is told, after the letter was: its own script's failure is a 500, with the text in the letter.
async fn refused(app: &App, row: &LetterRow, error: AgainError) -> Error {
    match error {
        AgainError::NotARecord => Error::bad_request("only dead letters of record events can be tried again"),
        AgainError::NoScript => Error::not_found(error.to_string()),
        AgainError::Unreadable(what) => Error::internal(format!("dead letter {}: {what}", row.id)),
        AgainError::Failed(failure) => {
            let message = app.script_services.variables.redact(&failure.message);
            match dead_letters::failed_again(&app.db, row.id, &message).await {
                Ok(()) => Error::new(StatusCode::INTERNAL_SERVER_ERROR, failure.public_text()),
                Err(error) => Error::from(error),
            }
        }
    }
}
