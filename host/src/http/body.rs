//! Reading a request's body, within its limit and in time.

use bytes::Bytes;
use http::StatusCode;
use http_body::Body as _;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Incoming;

use super::{Error, limits};

/// A body that is still on its way.
#[derive(Debug)]
pub struct Unread(Option<Incoming>);

impl Unread {
    pub(super) fn new(body: Incoming) -> Self {
        Self(if body.is_end_stream() { None } else { Some(body) })
    }

    /// No body at all, for tests and for requests made here.
    pub fn none() -> Self {
        Self(None)
    }

    /// The whole body.
    ///
    /// # Errors
    /// 413 above `limit` bytes (before reading, when the length is announced), 408 when it does not arrive in
    /// time, 400 when the client breaks off.
    pub async fn read(self, limit: usize) -> Result<Bytes, Error> {
        let Some(body) = self.0 else { return Ok(Bytes::new()) };
        if body.size_hint().lower() > limit as u64 {
            return Err(too_large(limit));
        }
        match tokio::time::timeout(limits::BODY_TIME, Limited::new(body, limit).collect()).await {
            Ok(Ok(body)) => Ok(body.to_bytes()),
            Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large(limit)),
            Ok(Err(error)) => Err(Error::bad_request(format!("the request body broke off: {error}"))),
            Err(_) => Err(Error::new(StatusCode::REQUEST_TIMEOUT, "the request body took too long")),
        }
    }
}

fn too_large(limit: usize) -> Error {
    Error::new(StatusCode::PAYLOAD_TOO_LARGE, format!("the request body is larger than {limit} bytes"))
}
