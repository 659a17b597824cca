//! `GET /admin/settings/db-info`: how the database is connected.

use std::sync::Arc;

use http::StatusCode;
use serde::Serialize;

use crate::access::Admin;
use crate::app::App;
use crate::http::{Error, Request, Response, response};

#[derive(Serialize)]
struct DbInfo {
    backend: &'static str,
    server_max_connections: Option<i64>,
    main_pool_size: u32,
    /// Backfill takes its connections from the main pool.
    backfill_pool_size: u32,
    /// The server takes fewer connections than the pool may open; a smaller DATABASE_MAX_CONNECTIONS helps.
    restart_recommended: bool,
}

pub async fn handle(app: Arc<App>, _admin: Admin, _request: Request) -> Result<Response, Error> {
    let server_max_connections = app.db.server_max_connections().await?;
    let main_pool_size = app.db.max_connections();
    let info = DbInfo {
        backend: app.db.backend().as_str(),
        server_max_connections,
        main_pool_size,
        backfill_pool_size: 0,
        restart_recommended: server_max_connections.is_some_and(|most| i64::from(main_pool_size) > most),
    };
    Ok(response::json(StatusCode::OK, &info))
}
