//! Checks views before they are stored, and `POST /admin/scripts/explain`: the reads of a view.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::access::Admin;
use crate::api::answer::{Json, JsonResult};
use crate::api::input::WithBody;
use crate::app::App;
use belvedere_protocol::trigger::{Trigger, TriggerKind};
use belvedere_scripting::views::{self, Offences, Step, View};
use belvedere_storage::store::{StoreError, scripts};
use belvedere_web::http::Error;

#[derive(Debug, Deserialize, JsonSchema)]
pub struct ViewToExplain {
    /// The trigger, such as `xrpc.view:com.example.getFeed`.
    id: String,
    /// Absent: the stored view.
    body: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct ViewExplanation {
    /// In the order in which they run.
    steps: Vec<Step>,
}

/// `POST /admin/scripts/explain`: the reads of a view, with their indexes and the most rows that each returns.
pub async fn explain(
    app: Arc<App>,
    _admin: Admin,
    request: WithBody<ViewToExplain>,
) -> JsonResult<ViewExplanation> {
    let ViewToExplain { id, body } = request.json()?;
    let trigger = Trigger::parse(&id).map_err(|error| Error::bad_request(error.to_string()))?;
    if trigger.kind() != TriggerKind::View {
        return Err(Error::bad_request("only a view (xrpc.view:NSID) can be explained"));
    }
    let stored = async || {
        let row = scripts::get(&app.db, trigger.id()).await?;
        row.map(|row| row.body)
            .ok_or_else(|| Error::not_found("view not found: send its body to explain one that is not saved"))
    };
    let body = if let Some(body) = body { body } else { stored().await? };
    let view = to_run(&app, &trigger, &body).await?;
    Ok(Json(ViewExplanation { steps: views::explain(&app.db, &view).await? }))
}

/// The view of a document, compared with the lexicon of its method, or its mistakes.
pub(super) async fn compiled(
    app: &App,
    trigger: &Trigger,
    body: &str,
) -> Result<Result<View, Offences>, StoreError> {
    let view = match views::compile(body) {
        Ok(view) => view,
        Err(offences) => return Ok(Err(offences)),
    };
    let documents = views::documents(&app.db).await?;
    Ok(views::check(&view, trigger.subject(), &documents).map(|()| view))
}

/// The view of a document, to run or to store it.
///
/// # Errors
/// 400 with all its mistakes.
pub(super) async fn to_run(app: &App, trigger: &Trigger, body: &str) -> Result<View, Error> {
    compiled(app, trigger, body).await?.map_err(|offences| refused(&offences))
}

/// The error for a view of a method that has a script, or a script of one that has a view.
pub(super) fn second(error: StoreError, trigger: &Trigger) -> Error {
    match (error, trigger.counterpart()) {
        (StoreError::Conflict(_), Some(other)) => Error::bad_request(format!(
            "{} has a script or a view already: delete {other} first, a method has either",
            trigger.subject()
        )),
        (error, _) => error.into(),
    }
}

fn refused(offences: &Offences) -> Error {
    Error::bad_request(format!("the view has mistakes: {offences}"))
}
