//! `GET /admin/stats/database`: the size of the database and of its largest tables.

use std::sync::Arc;

use http::StatusCode;
use serde::Serialize;

use crate::access::Admin;
use crate::app::App;
use belvedere_storage::store::sizes::{self, TableSize};
use belvedere_web::http::{Error, Request, Response, response};

#[derive(Serialize)]
struct Answer {
    backend: &'static str,
    size_bytes: i64,
    tables: Vec<TableView>,
}

#[derive(Serialize)]
struct TableView {
    name: String,
    /// An estimate.
    rows: Option<i64>,
    /// Without indexes.
    bytes: Option<i64>,
    index_bytes: Option<i64>,
}

impl From<TableSize> for TableView {
    fn from(table: TableSize) -> Self {
        let TableSize { name, rows, bytes, index_bytes } = table;
        Self { name, rows, bytes, index_bytes }
    }
}

pub async fn get(app: Arc<App>, _admin: Admin, _request: Request) -> Result<Response, Error> {
    let (size_bytes, tables) = sizes::read(&app.db).await?;
    let tables = tables.into_iter().map(TableView::from).collect();
    Ok(response::json(StatusCode::OK, &Answer { backend: app.db.backend().as_str(), size_bytes, tables }))
}
