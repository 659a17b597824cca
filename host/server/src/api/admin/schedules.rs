//! `GET /admin/schedules`: when scripts of schedules run next.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;

use crate::access::Admin;
use crate::api::answer::{Json, JsonResult};
use crate::app::App;
use belvedere_base::clock::Timestamp;
use belvedere_storage::store::schedules::{self, ScheduleRow};
use belvedere_web::http::Request;

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Schedule")]
pub struct ScheduleView {
    name: String,
    /// Minute, hour, day of the month, month, day of the week.
    cron: String,
    /// A name of the IANA database.
    timezone: String,
    next_at: Timestamp,
}

impl From<ScheduleRow> for ScheduleView {
    fn from(ScheduleRow { name, cron, timezone, next_at }: ScheduleRow) -> Self {
        Self { name, cron, timezone, next_at }
    }
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct ScheduleList {
    schedules: Vec<ScheduleView>,
}

/// The schedules, by name. One that was saved a moment ago is there after a second.
pub async fn list(app: Arc<App>, _admin: Admin, _request: Request) -> JsonResult<ScheduleList> {
    let rows = schedules::list(&app.db).await?;
    Ok(Json(ScheduleList { schedules: rows.into_iter().map(ScheduleView::from).collect() }))
}
