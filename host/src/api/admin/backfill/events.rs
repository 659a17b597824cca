//! `GET /admin/backfill/{id}/events`: the progress of a backfill as server-sent events (service.md, Backfill progress
//! stream; admin-api.md §12.4).

use std::sync::Arc;

use http::header::RETRY_AFTER;
use http::{HeaderValue, StatusCode};

use super::find;
use crate::access::Admin;
use crate::app::App;
use crate::fair_share::{Full, Tenant};
use crate::http::{Error, EventStream, Request, Response, response};

/// When a client whose stream was refused may try again, in seconds.
const RETRY_SECONDS: HeaderValue = HeaderValue::from_static("10");

pub async fn handle(app: Arc<App>, admin: Admin, request: Request) -> Result<Response, Error> {
    let job = find(&app, request.param("id")).await?;
    let messages = app.backfill_feeds.follow(&Tenant::of_did(admin.did.as_str()), job).map_err(|full| {
        let status = match full {
            Full::Tenant => StatusCode::TOO_MANY_REQUESTS,
            Full::Pool | Full::Patience => StatusCode::SERVICE_UNAVAILABLE,
        };
        Error::new(status, "too many event streams are open; close one first")
            .with_header(RETRY_AFTER, RETRY_SECONDS)
    })?;
    Ok(response::events(EventStream::new(messages)))
}
