//! Opens event streams: refuses one too many, and ends those of callers who lose their permission.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::{Stream, StreamExt as _};
use http::header::RETRY_AFTER;
use http::{HeaderValue, StatusCode};

use crate::access::Admin;
use crate::app::App;
use belvedere_web::fair_share::Full;
use belvedere_web::http::{Error, EventStream, Request, Response, response};

/// Time before a client whose stream was refused may try again, in seconds.
const RETRY_SECONDS: HeaderValue = HeaderValue::from_static("10");

/// The response with these messages, until the caller loses what the route needs.
pub fn open(
    app: &Arc<App>,
    admin: &Admin,
    request: &Request,
    messages: impl Stream<Item = Bytes> + Send + 'static,
) -> Response {
    let (app, admin, headers) = (Arc::clone(app), admin.clone(), request.headers().clone());
    let mut changes = app.access.admin_keys.changes();
    let refused = async move {
        while app.access.still_admits(&admin, &headers).await {
            // The sender is a part of `app`.
            let _ = changes.changed().await;
        }
    };
    response::events(EventStream::new(messages.take_until(Box::pin(refused))))
}

/// The error for a stream that finds no permit.
pub fn refused(full: Full) -> Error {
    let status = match full {
        Full::Tenant => StatusCode::TOO_MANY_REQUESTS,
        Full::Pool | Full::Timeout => StatusCode::SERVICE_UNAVAILABLE,
    };
    Error::new(status, "too many event streams are open; close one first")
        .with_header(RETRY_AFTER, RETRY_SECONDS)
}
