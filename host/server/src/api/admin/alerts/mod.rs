//! `/admin/alerts`: conditions about measurements, and the webhooks that are called when they hold.

mod body;
pub mod test;
mod view;

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;

use crate::access::Admin;
use crate::api::answer::{Empty, EmptyResult, Json, JsonResult};
use crate::api::input::WithBody;
use crate::app::App;
use belvedere_instance::alerts::{MAX_ALERTS, validate};
use belvedere_instance::events::Event;
use belvedere_storage::store::alerts::{self, AlertRow};
use belvedere_web::http::{Error, Request};
use body::{AlertBody, ChangedAlert};
use view::{AlertMetricInfo, AlertView};

/// The alert that the path names.
async fn named(app: &App, request: &Request) -> Result<AlertRow, Error> {
    let found = alerts::get(&app.db, request.param("id")).await?;
    found.ok_or_else(|| Error::not_found("alert not found"))
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Alerts {
    /// The oldest first.
    alerts: Vec<AlertView>,
    /// The metrics that an alert may compare.
    metrics: Vec<AlertMetricInfo>,
}

/// `GET /admin/alerts`: the alerts with their states, and the metrics that there are.
pub async fn list(app: Arc<App>, _admin: Admin, _request: Request) -> JsonResult<Alerts> {
    let alerts = alerts::list(&app.db).await?.into_iter().map(AlertView::from).collect();
    Ok(Json(Alerts { alerts, metrics: AlertMetricInfo::all(app.db.backend()) }))
}

/// `GET /admin/alerts/{id}`: one alert.
pub async fn get(app: Arc<App>, _admin: Admin, request: Request) -> JsonResult<AlertView> {
    Ok(Json(named(&app, &request).await?.into()))
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct CreatedAlert {
    #[serde(flatten)]
    alert: AlertView,
    /// The secret of the webhook's signatures, which is not shown again. Null: there is no webhook, or the secret is yours.
    secret: Option<String>,
}

/// `POST /admin/alerts`: creates an alert. It is checked every 20 seconds from now on.
pub async fn create(
    app: Arc<App>,
    admin: Admin,
    request: WithBody<AlertBody>,
) -> JsonResult<CreatedAlert, 201> {
    let body = request.json()?;
    let id = app.random.uuid();
    let generated = body.needs_secret().then(|| app.alerts.new_secret());
    let rule = body.rule(&app, &id, generated.as_deref(), None)?;
    validate(&rule, app.db.backend(), &app.net).map_err(|invalid| Error::bad_request(invalid.to_string()))?;
    let (actor, now) = (admin.did.to_string(), app.clock.now());
    if !alerts::create(&app.db, &id, &rule, &actor, MAX_ALERTS, now).await? {
        return Err(Error::bad_request(format!("there are already {MAX_ALERTS} alerts; delete some")));
    }
    app.events.record(Event::AlertCreated { actor, id: id.clone(), name: rule.name });
    let row = alerts::get(&app.db, &id).await?.ok_or_else(|| Error::not_found("alert not found"))?;
    Ok(Json(CreatedAlert { alert: row.into(), secret: generated }))
}

/// `PUT /admin/alerts/{id}`: replaces the rule of an alert. Its state stays until the next check.
pub async fn update(
    app: Arc<App>,
    admin: Admin,
    request: WithBody<ChangedAlert>,
) -> JsonResult<CreatedAlert> {
    let ChangedAlert { body, revision } = request.json()?;
    let old = named(&app, &request).await?;
    let (id, kept) = (old.id, old.rule.secret);
    let generated = (body.needs_secret() && kept.is_none()).then(|| app.alerts.new_secret());
    let rule = body.rule(&app, &id, generated.as_deref(), kept)?;
    validate(&rule, app.db.backend(), &app.net).map_err(|invalid| Error::bad_request(invalid.to_string()))?;
    if !alerts::update(&app.db, &id, &rule, revision.map(i64::from), app.clock.now()).await? {
        let newest = named(&app, &request).await?.revision;
        return Err(Error::conflict(format!(
            "the alert has revision {newest} now: read it again, and change that one"
        )));
    }
    app.events.record(Event::AlertUpdated { actor: admin.did.to_string(), id, name: rule.name });
    Ok(Json(CreatedAlert { alert: named(&app, &request).await?.into(), secret: generated }))
}

/// `DELETE /admin/alerts/{id}`: deletes an alert. Its webhook is not called any more.
pub async fn delete(app: Arc<App>, admin: Admin, request: Request) -> EmptyResult {
    let alert = named(&app, &request).await?;
    alerts::delete(&app.db, &alert.id).await?;
    let (id, name) = (alert.id, alert.rule.name);
    app.events.record(Event::AlertDeleted { actor: admin.did.to_string(), id, name });
    Ok(Empty)
}
