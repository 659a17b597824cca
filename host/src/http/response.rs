//! Builds responses: JSON, text or empty.

use bytes::Bytes;
use http::{HeaderValue, StatusCode, header::CONTENT_TYPE};
use http_body_util::Full;
use serde::Serialize;

/// The body of every response: complete in memory.
pub type Body = Full<Bytes>;
pub type Response = http::Response<Body>;

/// The content type of JSON.
pub const JSON: HeaderValue = HeaderValue::from_static("application/json");

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
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, JSON);
    response
}

/// A response without a body, such as 204.
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
