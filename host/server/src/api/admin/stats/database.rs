//! `GET /admin/stats/database`: the size of the database and of its largest tables.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;

use crate::access::Admin;
use crate::api::answer::{Json, JsonResult};
use crate::app::App;
use belvedere_storage::store::Backend;
use belvedere_storage::store::sizes::{self, TableSize};
use belvedere_web::http::Request;

#[derive(Debug, Serialize, JsonSchema)]
pub struct DatabaseSize {
    backend: Backend,
    size_bytes: i64,
    tables: Vec<TableSize>,
}

pub async fn get(app: Arc<App>, _admin: Admin, _request: Request) -> JsonResult<DatabaseSize> {
    let (size_bytes, tables) = sizes::read(&app.db).await?;
    Ok(Json(DatabaseSize { backend: app.db.backend(), size_bytes, tables }))
}
