//! Builds responses: JSON, text or empty, and those that are sent as they come into being: [`EventStream`] and downloads.

use std::fmt;
use std::pin::Pin;

use bytes::Bytes;
use futures_util::{Stream, StreamExt as _};
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderName, HeaderValue, StatusCode};
use serde::Serialize;

use super::EventStream;

/// The body of a response.
#[derive(Debug)]
pub enum Body {
    /// Complete in memory.
    Whole(Bytes),
    /// Sent as it comes into being.
    Open(OpenBody),
}

/// The source of an open response. It is asked for its next bytes only while the connection has room for them.
pub struct OpenBody(Pin<Box<dyn Stream<Item = Result<Bytes, Interrupted>> + Send>>);

/// The source of an open response can't go on. The connection is closed, so that the client does not take the beginning of
/// the body for all of it.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the rest of the response can't be sent")]
pub struct Interrupted;

impl OpenBody {
    pub(super) fn stream(
        &mut self,
    ) -> Pin<&mut (dyn Stream<Item = Result<Bytes, Interrupted>> + Send + 'static)> {
        self.0.as_mut()
    }
}

impl fmt::Debug for OpenBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OpenBody")
    }
}

impl Body {
    /// Its length in bytes; `None` while it is unknown.
    pub(super) fn length(&self) -> Option<usize> {
        match self {
            Self::Whole(bytes) => Some(bytes.len()),
            Self::Open(_) => None,
        }
    }
}

impl Default for Body {
    fn default() -> Self {
        Self::Whole(Bytes::new())
    }
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Self {
        Self::Whole(bytes)
    }
}

pub type Response = http::Response<Body>;

/// The content type of JSON.
pub const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// Tells nginx to forward each message at once.
const UNBUFFERED: (HeaderName, HeaderValue) =
    (HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));

/// A response with `value` as its JSON body.
pub fn json<T: Serialize + ?Sized>(status: StatusCode, value: &T) -> Response {
    match serde_json::to_vec(value) {
        Ok(body) => json_bytes(status, body.into()),
        // Only for maps whose keys are not strings: a bug of ours, not of the client.
        Err(error) => {
            tracing::error!(%error, "a response body could not be written as JSON");
            json_bytes(
                StatusCode::INTERNAL_SERVER_ERROR,
                Bytes::from_static(br#"{"error":"internal server error"}"#),
            )
        }
    }
}

/// A response whose body is JSON text already.
pub fn json_bytes(status: StatusCode, body: Bytes) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, JSON);
    response
}

/// A response that sends messages as they occur.
pub fn events(stream: EventStream) -> Response {
    let mut response = Response::new(Body::Open(OpenBody(Box::pin(stream.map(Ok)))));
    response.headers_mut().extend([
        (CONTENT_TYPE, HeaderValue::from_static("text/event-stream")),
        (CACHE_CONTROL, HeaderValue::from_static("no-cache")),
        UNBUFFERED,
    ]);
    response
}

/// A response whose bytes are made while it is sent.
pub fn download(
    content_type: HeaderValue,
    bytes: impl Stream<Item = Result<Bytes, Interrupted>> + Send + 'static,
) -> Response {
    let mut response = Response::new(Body::Open(OpenBody(Box::pin(bytes))));
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    response
}

/// A response without a body, such as 204.
pub fn empty(status: StatusCode) -> Response {
    let mut response = Response::new(Body::default());
    *response.status_mut() = status;
    response
}

pub fn text(status: StatusCode, body: impl Into<Bytes>) -> Response {
    let mut response = Response::new(body.into().into());
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}
