//! The request type of handlers: head, path parameters and body.

use std::net::IpAddr;

use bytes::Bytes;
use http::{HeaderMap, Method, Uri, request::Parts};
use serde::de::DeserializeOwned;

use super::Error;

/// [`Request::peer`] of a request that was made in this process, without a connection.
#[cfg(any(test, feature = "testing"))]
pub const NO_PEER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED);

/// A request. Its body is empty until the route has read it ([`super::body::UnreadBody`]).
#[derive(Debug)]
pub struct Request {
    pub head: Parts,
    pub body: Bytes,
    /// Path parameters, percent-decoded, in the order of the pattern.
    pub params: Vec<(&'static str, String)>,
    /// The request id: appears in the access log, in `x-request-id` and as correlation id of internal errors.
    pub id: String,
    /// The address at the other end of the connection: the client's, or that of the proxy in front of this server.
    pub peer: IpAddr,
}

impl Request {
    pub fn method(&self) -> &Method {
        &self.head.method
    }

    pub fn uri(&self) -> &Uri {
        &self.head.uri
    }

    pub fn headers(&self) -> &HeaderMap {
        &self.head.headers
    }

    /// A header's value; `None` when it is absent or not visible ASCII.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.headers.get(name)?.to_str().ok()
    }

    /// A path parameter of the route's pattern.
    ///
    /// # Panics
    /// When the pattern has no parameter of this name, which is a mistake in the route table.
    pub fn param(&self, name: &str) -> &str {
        self.params.iter().find(|(n, _)| *n == name).map_or_else(
            || panic!("the route of {} has no parameter {name}", self.head.uri.path()),
            |(_, value)| value.as_str(),
        )
    }

    /// The decoded query parameters, in order.
    pub fn query_pairs(
        &self,
    ) -> impl Iterator<Item = (std::borrow::Cow<'_, str>, std::borrow::Cow<'_, str>)> {
        url::form_urlencoded::parse(self.head.uri.query().unwrap_or_default().as_bytes())
    }

    /// The first value of a query parameter.
    pub fn query(&self, name: &str) -> Option<String> {
        self.query_pairs().find(|(n, _)| n == name).map(|(_, value)| value.into_owned())
    }

    /// Parses the body as JSON. Unknown fields are ignored.
    ///
    /// # Errors
    /// 400 with the reason and its position when the body is not JSON of this type.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, Error> {
        json(&self.body)
    }
}

/// Parses a body as JSON, as [`Request::json`].
///
/// # Errors
/// 400 with the reason and its position.
pub fn json<T: DeserializeOwned>(body: &[u8]) -> Result<T, Error> {
    serde_json::from_slice(body).map_err(|e| Error::bad_request(format!("invalid request body: {e}")))
}
