//! What a caller is told when the store fails.

use http::StatusCode;

use crate::http::Error;
use crate::records::ReadError;
use crate::store::StoreError;

/// The answer to a failure of the store that the handler has no better word for: 500, with the cause in the log, or 503
/// for a tenant that has enough reads under way. Conflicts and absences are the handlers' to name before it comes to
/// this.
pub fn failed(error: StoreError) -> Error {
    match error {
        StoreError::Busy(_) => Error::new(StatusCode::SERVICE_UNAVAILABLE, error.to_string()),
        error => Error::internal(error),
    }
}

/// As [`failed`], for a page of records: a malformed cursor is the caller's mistake.
pub fn unreadable(error: ReadError) -> Error {
    match error {
        ReadError::Cursor(invalid) => Error::bad_request(invalid.to_string()),
        ReadError::Store(error) => failed(error),
    }
}
