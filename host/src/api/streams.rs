//! Refuses event streams when too many are open.

use http::header::RETRY_AFTER;
use http::{HeaderValue, StatusCode};

use crate::fair_share::Full;
use crate::http::Error;

/// When a client whose stream was refused may try again, in seconds.
const RETRY_SECONDS: HeaderValue = HeaderValue::from_static("10");

/// The error for a stream that finds no place.
pub fn refused(full: Full) -> Error {
    let status = match full {
        Full::Tenant => StatusCode::TOO_MANY_REQUESTS,
        Full::Pool | Full::Patience => StatusCode::SERVICE_UNAVAILABLE,
    };
    Error::new(status, "too many event streams are open; close one first")
        .with_header(RETRY_AFTER, RETRY_SECONDS)
}
