//! Requests to the hosts that the operator granted.

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::bindings::imports::belvedere::plugin::http as host;
use crate::{Fault, FaultCode, secrets, url};

/// The secret with a prefix under which all hosts are reached, for tests and for networks that leave through a reverse
/// proxy: `http://localhost:3000` turns `https://api.example.com/x` into `http://localhost:3000/api.example.com/x`. The
/// operator must have granted that host, as any other.
const PROXY_SECRET: &str = "PROXY_URL";

/// A request.
#[derive(Clone, Debug)]
pub struct Request(host::Request);

/// A response of any status.
#[derive(Clone, Debug)]
pub struct Response(host::Response);

/// The URL, behind the proxy if the operator has set one.
pub fn service_url(url: &str) -> String {
    match secrets::get(PROXY_SECRET) {
        Some(proxy) => behind(&proxy, url),
        None => url.to_owned(),
    }
}

fn behind(proxy: &str, url: &str) -> String {
    let rest = url.strip_prefix("https://").unwrap_or(url);
    format!("{}/{rest}", proxy.trim_end_matches('/'))
}

impl Request {
    /// `url` must begin with `https://`.
    pub fn new(method: &str, url: &str) -> Self {
        Self(host::Request {
            method: method.to_owned(),
            url: service_url(url),
            headers: Vec::new(),
            body: None,
            timeout_ms: None,
            follow_redirects: false,
        })
    }

    pub fn get(url: &str) -> Self {
        Self::new("GET", url)
    }

    /// Sends the parameters in the body, as a form does.
    pub fn post_form(url: &str, params: &[(&str, &str)]) -> Self {
        let mut request = Self::new("POST", url).header("content-type", "application/x-www-form-urlencoded");
        request.0.body = Some(url::form(params).into_bytes());
        request
    }

    pub fn post_json(url: &str, body: &Value) -> Self {
        let mut request = Self::new("POST", url).header("content-type", "application/json");
        request.0.body = Some(body.to_string().into_bytes());
        request
    }

    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.0.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Sends the request.
    ///
    /// # Errors
    /// When there is no answer. An answer of any status is a [`Response`].
    pub fn send(&self) -> Result<Response, Fault> {
        host::send(&self.0).map(Response)
    }

    /// Sends the request, and reads the JSON of a successful answer.
    ///
    /// # Errors
    /// `needs-reauth` for 401, `rate-limited` for 429, `upstream` for other statuses and for an unexpected body.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, Fault> {
        self.send()?.successful()?.json()
    }
}

impl Response {
    pub fn status(&self) -> u16 {
        self.0.status
    }

    pub fn body(&self) -> &[u8] {
        &self.0.body
    }

    /// The first header of that name, in lower case, if its value is UTF-8.
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.0.headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
        found.and_then(|(_, value)| std::str::from_utf8(value).ok())
    }

    /// The response, if its status is 2xx.
    pub fn successful(self) -> Result<Self, Fault> {
        if (200..300).contains(&self.0.status) {
            return Ok(self);
        }
        let code = match self.0.status {
            401 => FaultCode::NeedsReauth,
            429 => FaultCode::RateLimited,
            _ => FaultCode::Upstream,
        };
        let seconds = self.header("retry-after").and_then(|value| value.parse::<u64>().ok());
        let mut fault = Fault::new(code, format!("the service answered with the status {}", self.0.status));
        fault.status = Some(self.0.status);
        fault.retry_after_ms = seconds.map(|seconds| seconds.saturating_mul(1000));
        Err(fault)
    }

    pub fn json<T: DeserializeOwned>(&self) -> Result<T, Fault> {
        serde_json::from_slice(&self.0.body)
            .map_err(|error| Fault::upstream(format!("the service's answer can't be read: {error}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(status: u16, headers: &[(&str, &str)], body: &str) -> Response {
        let headers = headers.iter().map(|(k, v)| ((*k).to_owned(), v.as_bytes().to_vec())).collect();
        Response(host::Response { status, headers, body: body.as_bytes().to_vec() })
    }

    #[test]
    fn hosts_move_behind_the_proxy() {
        let expected = "http://localhost:3000/api.example.com/x?y=https://z";
        for proxy in ["http://localhost:3000", "http://localhost:3000/"] {
            assert_eq!(behind(proxy, "https://api.example.com/x?y=https://z"), expected);
        }
    }

    #[test]
    fn statuses_become_faults() {
        for (status, code) in [
            (401, FaultCode::NeedsReauth),
            (429, FaultCode::RateLimited),
            (302, FaultCode::Upstream),
            (500, FaultCode::Upstream),
        ] {
            let fault = response(status, &[("Retry-After", "3")], "secret").successful().unwrap_err();
            assert_eq!((fault.code, fault.status, fault.retry_after_ms), (code, Some(status), Some(3000)));
            assert!(!fault.message.contains("secret"));
        }
        assert_eq!(response(204, &[], "").successful().unwrap().status(), 204);
    }

    #[test]
    fn broken_json_is_an_upstream_fault() {
        let fault = response(200, &[], "<html>").json::<Value>().unwrap_err();
        assert_eq!(fault.code, FaultCode::Upstream);
        assert_eq!(response(200, &[], "[1]").json::<Value>().unwrap(), serde_json::json!([1]));
    }
}
