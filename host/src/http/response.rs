//! Responses: a full body of bytes, or a stream.

use bytes::Bytes;
use http::{HeaderValue, StatusCode, header::CONTENT_TYPE};
use http_body_util::Full;
use serde::Serialize;

/// The body of every response so far. Streams (SSE, blobs) widen it when they come.
pub type Body = Full<Bytes>;
pub type Response = http::Response<Body>;

const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// A response with `value` as its JSON body.
pub fn json<T: Serialize + ?Sized>(status: StatusCode, value: &T) -> Response {
    match serde_json::to_vec(value) {
        Ok(body) => json_bytes(status, body.into()),
        // Only a map with keys that are no strings gets here: our own bug, not the caller's.
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
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, JSON);
    response
}

/// 204, or another status that carries no body.
pub fn empty(status: StatusCode) -> Response {
    let mut response = Response::new(Full::default());
    *response.status_mut() = status;
    response
}

pub fn text(status: StatusCode, body: impl Into<Bytes>) -> Response {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}
