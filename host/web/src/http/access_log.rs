//! The access log: one line for each request, without the query string, which may contain client keys and invites.

use std::net::SocketAddr;
use std::time::Duration;

use http::request::Parts;
use http::{Method, Uri};

use super::Response;

/// The log target, so that `RUST_LOG=info,access=off` silences just this.
const TARGET: &str = "access";

/// The parts of a request that the line needs after the handler has consumed it. Cloning them only counts references.
#[derive(Debug)]
pub(super) struct AccessLog {
    method: Method,
    uri: Uri,
    peer: SocketAddr,
}

impl AccessLog {
    /// `None` when the log filter discards the line.
    pub(super) fn begin(head: &Parts, peer: SocketAddr) -> Option<Self> {
        tracing::enabled!(target: TARGET, tracing::Level::INFO).then(|| Self {
            method: head.method.clone(),
            uri: head.uri.clone(),
            peer,
        })
    }

    pub(super) fn end(self, response: &Response, id: &str, elapsed: Duration) {
        let status = response.status().as_u16();
        let path = self.uri.path();
        tracing::info!(
            target: TARGET,
            method = self.method.as_str(),
            path,
            status,
            duration_us = elapsed.as_micros() as u64,
            response_bytes = response.body().length().unwrap_or_default(),
            client = %self.peer.ip(),
            request_id = id,
            "{} {path} {status}",
            self.method,
        );
    }
}
