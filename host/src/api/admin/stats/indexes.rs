//! `GET /admin/stats/indexes`: the record fields that queries use, what they cost, and the indexes made for them.

use std::sync::Arc;

use http::StatusCode;
use serde::Serialize;

use crate::access::Admin;
use crate::app::App;
use crate::clock::Timestamp;
use crate::http::{Error, Request, Response, response};
use crate::store::fields::table::{self, Entry, State};

#[derive(Serialize)]
struct Answer {
    /// The most that the server makes; 0 when it makes none.
    limit: u32,
    indexes: Vec<Index>,
}

#[derive(Serialize)]
struct Index {
    collection: String,
    field: String,
    /// `filter`, `sort` or `search`.
    kind: &'static str,
    /// `candidate` (no index yet), `building`, `ready` or `failed`.
    state: &'static str,
    calls: i64,
    /// Calls that no index answered.
    scans: i64,
    /// Milliseconds that those took together.
    scan_ms: f64,
    last_used_at: Timestamp,
    /// Since when it is ready.
    built_at: Option<Timestamp>,
    /// Milliseconds that the build took.
    build_ms: Option<f64>,
    error: Option<String>,
}

/// The dearest first. What was used within the last seconds may not be counted yet.
pub async fn handle(app: Arc<App>, _admin: Admin, _request: Request) -> Result<Response, Error> {
    let entries = table::list(&app.db).await?;
    let indexes = entries.into_iter().map(Index::from).collect();
    Ok(response::json(StatusCode::OK, &Answer { limit: app.config.database.field_index_limit, indexes }))
}

impl From<Entry> for Index {
    fn from(entry: Entry) -> Self {
        let millis = |micros: i64| micros as f64 / 1e3;
        Self {
            collection: entry.collection,
            field: entry.key.path.to_string(),
            kind: entry.key.kind.as_str(),
            state: entry.state.as_str(),
            calls: entry.calls,
            scans: entry.scans,
            scan_ms: millis(entry.scan_micros),
            last_used_at: entry.last_used_at,
            built_at: (entry.state == State::Ready).then_some(entry.state_changed_at),
            build_ms: entry.build_micros.map(millis),
            error: entry.error,
        }
    }
}
