//! `/admin/labelers`: manages the labelers whose labels are stored.

use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::account::account_of;
use crate::access::Admin;
use crate::api::answer::{Empty, EmptyResult, Json, JsonResult};
use crate::api::input::WithBody;
use crate::app::{App, Topic};
use belvedere_base::clock::Timestamp;
use belvedere_instance::events::Event;
use belvedere_storage::store::labelers::{self, Added, LabelerRow, LabelerStatus};
use belvedere_web::http::{Error, Request};

/// Time that a deletion waits until the labels are gone. Those of a large labeler take longer; they are out of force
/// from the beginning.
const REMOVAL_WAIT: Duration = Duration::from_secs(5);

/// The interval at which that is checked.
const REMOVAL_POLL: Duration = Duration::from_millis(50);

/// Labelers that can be listed. Each takes a connection and a task.
const MAX_LABELERS: usize = 100;

#[derive(Debug, Serialize, JsonSchema)]
pub struct Labeler {
    #[schemars(extend("format" = "did"))]
    did: String,
    #[schemars(extend("enum" = ["active", "paused"]))]
    status: &'static str,
    /// The number of the last message whose labels are stored.
    cursor: Option<i64>,
    connected: bool,
    /// Stays when the labeler is connected again; `last_error_at` says when it happened.
    last_error: Option<String>,
    last_error_at: Option<Timestamp>,
    created_at: Timestamp,
    updated_at: Timestamp,
}

impl From<LabelerRow> for Labeler {
    fn from(row: LabelerRow) -> Self {
        Self {
            did: row.did,
            status: row.status.as_str(),
            cursor: row.cursor,
            // The host that follows it may not have noticed yet that it does not any more.
            connected: row.status == LabelerStatus::Active && row.connection.is_some(),
            last_error: row.last_error,
            last_error_at: row.last_error_at,
            created_at: row.created_at,
            updated_at: row.updated_at,
        }
    }
}

/// `GET /admin/labelers`: the labelers that are followed, oldest first.
pub async fn list(app: Arc<App>, _admin: Admin, _request: Request) -> JsonResult<Vec<Labeler>> {
    let rows = labelers::list(&app.db).await?;
    let shown = rows.into_iter().filter(|row| row.status != LabelerStatus::Deleting);
    Ok(Json(shown.map(Labeler::from).collect()))
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct NewLabeler {
    /// A DID or a handle.
    #[schemars(extend("format" = "at-identifier"))]
    did: String,
}

/// `POST /admin/labelers`: follows a labeler from its first label on. Does nothing if it is listed already.
pub async fn create(app: Arc<App>, admin: Admin, request: WithBody<NewLabeler>) -> EmptyResult<201> {
    let NewLabeler { did } = request.json()?;
    let did = account_of(&app, "did", &did).await?;
    let others = labelers::list(&app.db).await?.iter().filter(|row| row.did != did.as_str()).count();
    if others >= MAX_LABELERS {
        let message = format!("there are {MAX_LABELERS} labelers already: delete one first");
        return Err(Error::bad_request(message));
    }
    match labelers::create(&app.db, &did, app.clock.now()).await? {
        Added::Exists => {}
        Added::Deleting => {
            let hint = "was deleted, and its labels are still being removed; try again in a moment";
            return Err(Error::conflict(format!("{did} {hint}")));
        }
        Added::New => {
            app.changed(Topic::Labelers).await?;
            app.events.record(Event::LabelerAdded { actor: admin.did.to_string(), did });
        }
    }
    Ok(Empty)
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct LabelerPatch {
    #[schemars(extend("enum" = ["active", "paused"]))]
    status: String,
}

/// `PATCH /admin/labelers/{did}`: pauses a labeler or follows it again. The labels of a paused one stay in force.
pub async fn update(app: Arc<App>, admin: Admin, request: WithBody<LabelerPatch>) -> JsonResult<Labeler> {
    let LabelerPatch { status } = request.json()?;
    let status = match status.as_str() {
        "active" => LabelerStatus::Active,
        "paused" => LabelerStatus::Paused,
        _ => return Err(Error::bad_request("status must be active or paused")),
    };
    let row = set_status(&app, request.param("did"), status).await?;
    let (actor, did) = (admin.did.to_string(), row.did.clone());
    app.events.record(Event::LabelerUpdated { actor, did, status: status.as_str() });
    Ok(Json(Labeler::from(row)))
}

/// `DELETE /admin/labelers/{did}`: removes a labeler and all its labels.
pub async fn delete(app: Arc<App>, admin: Admin, request: Request) -> EmptyResult {
    let row = set_status(&app, request.param("did"), LabelerStatus::Deleting).await?;
    app.events.record(Event::LabelerDeleted { actor: admin.did.to_string(), did: row.did.clone() });
    let deadline = Instant::now() + REMOVAL_WAIT;
    while labelers::get(&app.db, &row.did).await?.is_some() && Instant::now() < deadline {
        tokio::time::sleep(REMOVAL_POLL).await;
    }
    Ok(Empty)
}

async fn set_status(app: &App, did: &str, status: LabelerStatus) -> Result<LabelerRow, Error> {
    let row = labelers::set_status(&app.db, did, status, app.clock.now()).await?;
    let row = row.ok_or_else(|| Error::not_found("labeler not found"))?;
    app.changed(Topic::Labelers).await?;
    Ok(row)
}
