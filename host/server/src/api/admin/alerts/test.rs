//! Sends a test to the target of an alert.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;

use super::named;
use crate::access::Admin;
use crate::api::answer::{Json, JsonResult};
use crate::app::App;
use belvedere_instance::events::Event;
use belvedere_web::http::Request;

#[derive(Debug, Serialize, JsonSchema)]
pub struct AlertTest {
    /// Whether the webhook accepted the call, or the event log has the test.
    is_sent: bool,
    /// The reason why not.
    error: Option<String>,
}

/// `POST /admin/alerts/{id}/test`: calls the webhook of an alert once, with the state `test`. The event log has the test.
pub async fn handle(app: Arc<App>, admin: Admin, request: Request) -> JsonResult<AlertTest> {
    let alert = named(&app, &request).await?;
    let error = app.alerts.test(&alert).await.err().map(|error| error.to_string());
    app.events.record(Event::AlertTested {
        actor: admin.did.to_string(),
        id: alert.id,
        name: alert.rule.name,
        error: error.clone(),
    });
    Ok(Json(AlertTest { is_sent: error.is_none(), error }))
}
