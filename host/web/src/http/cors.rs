//! The CORS policy: answers preflights and adds CORS headers to responses (auth-and-clients.md §12).
//!
//! Every origin may call, because clients authenticate with keys and tokens. Only the instance's own origins may send
//! cookies, because browsers attach cookies without the user's consent.

use std::fmt;
use std::sync::Arc;

use http::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE,
    ACCESS_CONTROL_REQUEST_METHOD, ORIGIN, VARY,
};
use http::{HeaderMap, HeaderValue, Method, StatusCode};

use super::response::{self, Response};

const METHODS: HeaderValue = HeaderValue::from_static("GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS");
const REQUEST_HEADERS: HeaderValue = HeaderValue::from_static(
    "content-type, authorization, x-client-key, x-client-secret, dpop, atproto-accept-labelers, atproto-proxy, \
     atproto-space-audience, signature, signature-input, x-request-id",
);
/// Response headers that a page may read.
const EXPOSED: HeaderValue = HeaderValue::from_static(
    "dpop-nonce, ratelimit-limit, ratelimit-remaining, ratelimit-reset, retry-after, www-authenticate, \
     atproto-content-labelers, atproto-repo-rev, x-request-id",
);
/// A day, in seconds; browsers cap it.
const MAX_AGE: HeaderValue = HeaderValue::from_static("86400");
const VARY_ORIGIN: HeaderValue = HeaderValue::from_static("Origin");
const TRUE: HeaderValue = HeaderValue::from_static("true");

/// The CORS policy: which origins may send cookies.
#[derive(Clone)]
pub struct Cors {
    is_own: Arc<dyn Fn(&str) -> bool + Send + Sync>,
}

impl Cors {
    /// `is_own` returns whether an origin is one of the instance. It receives the origin as browsers send it:
    /// `https://example.com`, with a port only when it is not the scheme's default.
    pub fn new(is_own: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        Self { is_own: Arc::new(is_own) }
    }

    /// The response to a preflight; `None` for every other request.
    pub(super) fn preflight(method: &Method, headers: &HeaderMap) -> Option<Response> {
        if *method != Method::OPTIONS || !headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD) {
            return None;
        }
        let mut response = response::empty(StatusCode::NO_CONTENT);
        let out = response.headers_mut();
        out.insert(ACCESS_CONTROL_ALLOW_METHODS, METHODS);
        out.insert(ACCESS_CONTROL_ALLOW_HEADERS, REQUEST_HEADERS);
        out.insert(ACCESS_CONTROL_MAX_AGE, MAX_AGE);
        Some(response)
    }

    /// Adds the headers with which a page of `origin` may read the response.
    pub(super) fn apply(&self, origin: Option<&HeaderValue>, response: &mut Response) {
        let Some(origin) = origin else { return };
        let own = origin.to_str().is_ok_and(|origin| (self.is_own)(origin));
        let out = response.headers_mut();
        out.append(VARY, VARY_ORIGIN);
        out.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
        if own {
            out.insert(ACCESS_CONTROL_ALLOW_CREDENTIALS, TRUE);
        }
        if !out.contains_key(ACCESS_CONTROL_MAX_AGE) {
            out.insert(ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
        }
    }

    pub(super) fn origin(headers: &HeaderMap) -> Option<&HeaderValue> {
        headers.get(ORIGIN)
    }
}

impl fmt::Debug for Cors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Cors")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn applied(origin: &str) -> HeaderMap {
        let cors = Cors::new(|origin| origin == "https://index.example");
        let mut response = response::empty(StatusCode::OK);
        cors.apply(Some(&HeaderValue::from_str(origin).unwrap()), &mut response);
        response.headers().clone()
    }

    #[test]
    fn any_origin_may_read_but_only_our_own_may_send_cookies() {
        let other = applied("https://app.example");
        assert_eq!(other[ACCESS_CONTROL_ALLOW_ORIGIN], "https://app.example");
        assert_eq!(other[VARY], "Origin");
        assert!(other[ACCESS_CONTROL_EXPOSE_HEADERS].to_str().unwrap().contains("dpop-nonce"));
        assert!(other[ACCESS_CONTROL_EXPOSE_HEADERS].to_str().unwrap().contains("atproto-content-labelers"));
        assert!(!other.contains_key(ACCESS_CONTROL_ALLOW_CREDENTIALS));
        assert_eq!(applied("https://index.example")[ACCESS_CONTROL_ALLOW_CREDENTIALS], "true");
        for near in
            ["null", "https://index.example.evil", "http://index.example", "https://index.example:8443"]
        {
            assert!(!applied(near).contains_key(ACCESS_CONTROL_ALLOW_CREDENTIALS), "{near}");
        }
    }

    #[test]
    fn a_request_without_origin_gets_no_headers() {
        let mut response = response::empty(StatusCode::OK);
        Cors::new(|origin| origin == "https://index.example").apply(None, &mut response);
        assert!(response.headers().is_empty());
    }

    #[test]
    fn only_options_with_access_control_request_method_is_a_preflight() {
        let mut headers = HeaderMap::new();
        assert!(Cors::preflight(&Method::OPTIONS, &headers).is_none());
        headers.insert(ACCESS_CONTROL_REQUEST_METHOD, HeaderValue::from_static("PATCH"));
        assert!(Cors::preflight(&Method::GET, &headers).is_none());
        let answer = Cors::preflight(&Method::OPTIONS, &headers).unwrap();
        assert_eq!(answer.status(), 204);
        let methods = answer.headers()[ACCESS_CONTROL_ALLOW_METHODS].to_str().unwrap();
        assert!(["PUT", "PATCH", "DELETE"].iter().all(|m| methods.contains(m)));
        let headers = answer.headers()[ACCESS_CONTROL_ALLOW_HEADERS].to_str().unwrap();
        assert!(["atproto-proxy", "atproto-accept-labelers"].iter().all(|h| headers.contains(h)));
    }
}
