//! The error type of handlers: what the client receives, and the cause that is only logged.

use std::borrow::Cow;
use std::fmt;

use bytes::Bytes;
use http::{HeaderValue, StatusCode, header::HeaderName};
use serde::Serialize;

use super::response::{Response, json_bytes};
use belvedere_base::error_text;

/// An error response: status and `{error}` body for the client, and for internal errors a cause that is logged and
/// never sent.
#[derive(Debug)]
pub struct Error {
    pub status: StatusCode,
    /// The `error` field. Never carries a cause, a path or a secret.
    pub error: Cow<'static, str>,
    /// The `message` field, for XRPC errors, whose `error` field is a code.
    pub message: Option<Cow<'static, str>>,
    /// Headers of the response. A `Vec`, because most errors have none and it keeps `Result`s small.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// The cause of an internal error; logged with the correlation id, never sent.
    pub cause: Option<Box<dyn std::error::Error + Send + Sync>>,
}

#[derive(Serialize)]
struct ErrorBody<'a> {
    error: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'a str>,
    #[serde(rename = "correlationId", skip_serializing_if = "Option::is_none")]
    correlation_id: Option<&'a str>,
}

impl Error {
    pub fn new(status: StatusCode, error: impl Into<Cow<'static, str>>) -> Self {
        Self { status, error: error.into(), message: None, headers: Vec::new(), cause: None }
    }

    pub fn bad_request(error: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, error)
    }

    pub fn unauthorized(error: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, error)
    }

    pub fn forbidden(error: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::FORBIDDEN, error)
    }

    pub fn not_found(error: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::NOT_FOUND, error)
    }

    pub fn conflict(error: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::CONFLICT, error)
    }

    /// 500 with a fixed text; `cause` is logged with the request's correlation id.
    pub fn internal(cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        let mut error = Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal server error");
        error.cause = Some(cause.into());
        error
    }

    #[must_use]
    pub fn with_message(mut self, message: impl Into<Cow<'static, str>>) -> Self {
        self.message = Some(message.into());
        self
    }

    #[must_use]
    pub fn with_header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.push((name, value));
        self
    }

    /// Logs the cause of an internal error.
    pub fn log_cause(&self, route: &str, request_id: &str) {
        if let Some(cause) = &self.cause {
            let cause = error_text::with_causes(cause.as_ref());
            tracing::error!(route, request_id, cause, "a request failed");
        }
    }

    /// Builds the body. Only internal errors contain `correlation_id`.
    pub fn body(&self, correlation_id: &str) -> Bytes {
        let body = ErrorBody {
            error: &self.error,
            message: self.message.as_deref(),
            correlation_id: (self.cause.is_some()).then_some(correlation_id),
        };
        // Text fields alone: writing them as JSON can't fail.
        serde_json::to_vec(&body).unwrap_or_default().into()
    }

    /// Builds the response; its body is that of [`Self::body`].
    pub fn into_response(self, correlation_id: &str) -> Response {
        let mut response = json_bytes(self.status, self.body(correlation_id));
        response.headers_mut().extend(self.headers);
        response
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.status.as_u16(), self.error)
    }
}
