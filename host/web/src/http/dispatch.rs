//! Processes a request around its handler: request id, limits, CORS, routing, panics, metrics and the access log.

use std::net::{IpAddr, SocketAddr};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use http::header::{ALLOW, CONTENT_LENGTH, HOST, RETRY_AFTER};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, StatusCode, Version};
use hyper::body::Incoming;
use tokio_util::task::TaskTracker;

use super::access_log::AccessLog;
use super::body::UnreadBody;
use super::cors::Cors;
use super::id::{RequestIds, X_REQUEST_ID};
use super::monitor::Counters;
use super::response_memory::{Overloaded, Reservation, ResponseBody, ResponseMemory};
use super::route_metrics::RouteMetrics;
use super::router::{Endpoint, RouteMatch, Router};
use super::{Body, Error, Request, Response, limits, nul, response};
use belvedere_base::random::Random;

/// Answers requests: the router with everything that applies to all routes.
#[derive(Debug)]
pub struct Http {
    router: Router,
    cors: Cors,
    ids: RequestIds,
    unrouted: RouteMetrics,
    response_memory: ResponseMemory,
    /// The address whose share of the response memory a request takes.
    client_address: ClientAddress,
    /// Requests with unsafe methods run here to completion, even when the client disconnects.
    tasks: TaskTracker,
    /// Interval of the checks of connections: [`limits::TICK`], shorter in tests.
    tick: Duration,
}

type FindAddress = dyn Fn(IpAddr, &HeaderMap) -> IpAddr + Send + Sync;

/// Finds the client's address from the peer's address and the request's headers.
struct ClientAddress(Box<FindAddress>);

impl std::fmt::Debug for ClientAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ClientAddress")
    }
}

impl Http {
    pub fn new(router: Router, cors: Cors, random: &Random, tasks: TaskTracker) -> Self {
        let (ids, unrouted) = (RequestIds::new(random), RouteMetrics::new("", "(none)"));
        let client_address = ClientAddress(Box::new(|peer, _| peer));
        let (response_memory, tick) = (ResponseMemory::new(limits::RESPONSE_MEMORY), limits::TICK);
        Self { router, cors, ids, unrouted, response_memory, client_address, tasks, tick }
    }

    /// For a server behind proxies: `client` returns the client's address for the peer's address and the headers that
    /// the proxy has set.
    #[must_use]
    pub fn with_client_address(
        self,
        client: impl Fn(IpAddr, &HeaderMap) -> IpAddr + Send + Sync + 'static,
    ) -> Self {
        Self { client_address: ClientAddress(Box::new(client)), ..self }
    }

    /// Bounds the memory of responses that clients have not read yet.
    #[must_use]
    pub fn with_response_memory(self, bytes: usize) -> Self {
        Self { response_memory: ResponseMemory::new(bytes), ..self }
    }

    #[cfg(test)]
    pub(super) fn with_tick(self, tick: Duration) -> Self {
        Self { tick, ..self }
    }

    /// Reserved units of response memory.
    #[cfg(test)]
    pub(super) fn reserved_units(&self) -> usize {
        self.response_memory.reserved_units()
    }

    pub(super) fn tick(&self) -> Duration {
        self.tick
    }

    /// Answers one request. Every failure becomes an error response.
    pub(super) async fn answer(
        &self,
        peer: SocketAddr,
        connection: &Arc<Counters>,
        request: http::Request<Incoming>,
    ) -> http::Response<ResponseBody> {
        let started = Instant::now();
        let (head, body) = request.into_parts();
        let id = self.ids.id_for(&head.headers);
        let origin = Cors::origin(&head.headers).cloned();
        let is_head = head.method == Method::HEAD;
        let log = AccessLog::begin(&head, peer);

        let changes = !head.method.is_safe();
        let client = (self.client_address.0)(peer.ip(), &head.headers);

        let (mut response, metrics) = if self.response_memory.should_refuse(client, connection, changes) {
            (overloaded().into_response(&id), &self.unrouted)
        } else {
            self.respond(peer.ip(), head, UnreadBody::new(body), &id).await
        };
        if is_head {
            without_body(&mut response);
        }
        let reservation = self.response_memory.reserve(client, connection, response.body().length()).await;
        let reservation = reservation.unwrap_or_else(|Overloaded| {
            let error = if changes { response_dropped() } else { overloaded() };
            response = error.into_response(&id);
            Reservation::default()
        });
        self.cors.apply(origin.as_ref(), &mut response);
        let elapsed = started.elapsed();
        metrics.record(response.status(), elapsed);
        if let Some(log) = log {
            log.end(&response, &id, elapsed);
        }
        if let Ok(id) = HeaderValue::from_maybe_shared(bytes::Bytes::from(id)) {
            response.headers_mut().insert(X_REQUEST_ID, id);
        }
        response.map(|body| reservation.send(connection, body))
    }

    async fn respond(
        &self,
        peer: IpAddr,
        head: Parts,
        body: UnreadBody,
        id: &str,
    ) -> (Response, &RouteMetrics) {
        if let Err(error) = check_head(&head) {
            return (error.into_response(id), &self.unrouted);
        }
        if let Some(response) = Cors::preflight(&head.method, &head.headers) {
            return (response, &self.unrouted);
        }
        match self.router.find(&head.method, head.uri.path()) {
            RouteMatch::Endpoint(endpoint, params) => {
                let request = Request { head, body: bytes::Bytes::new(), params, id: id.to_owned(), peer };
                (self.run(endpoint, request, body, id).await, &endpoint.metrics)
            }
            RouteMatch::OtherMethods(allow) if head.method == Method::OPTIONS => {
                let mut response = response::empty(StatusCode::NO_CONTENT);
                response.headers_mut().insert(ALLOW, allow);
                (response, &self.unrouted)
            }
            RouteMatch::OtherMethods(allow) => {
                let error = Error::new(StatusCode::METHOD_NOT_ALLOWED, "method not allowed");
                (error.with_header(ALLOW, allow).into_response(id), &self.unrouted)
            }
            RouteMatch::Nothing => (Error::not_found("not found").into_response(id), &self.unrouted),
        }
    }

    async fn run(&self, endpoint: &Endpoint, request: Request, body: UnreadBody, id: &str) -> Response {
        let changes = !request.head.method.is_safe();
        let answer = AssertUnwindSafe((endpoint.handler)(request, body)).catch_unwind();
        let answer = if changes {
            // A client that disconnects cancels its future. A change must not stop half-way, stored but not yet applied
            // to the state in memory.
            self.tasks.spawn(answer).await.unwrap_or_else(|error| Err(Box::new(error.to_string())))
        } else {
            answer.await
        };
        match answer {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => {
                error.log_cause(endpoint.pattern, id);
                error.into_response(id)
            }
            // The panic hook has logged the panic's location and text.
            Err(_) => {
                tracing::error!(route = endpoint.pattern, request_id = id, "a handler panicked");
                Error::internal("panic").into_response(id)
            }
        }
    }
}

/// 503: this client, or all clients together, have too much response data unread.
fn overloaded() -> Error {
    Error::new(StatusCode::SERVICE_UNAVAILABLE, "too many responses wait to be read")
        .with_header(RETRY_AFTER, HeaderValue::from_static("1"))
}

/// Like [`overloaded`], but after the change was made: without `retry-after`, because the client must not repeat it.
fn response_dropped() -> Error {
    Error::new(
        StatusCode::SERVICE_UNAVAILABLE,
        "the request was carried out, but its response was dropped: too many wait to be read",
    )
}

/// Refuses a head that is too large, is ambiguous, or contains U+0000.
fn check_head(head: &Parts) -> Result<(), Error> {
    let uri = head.uri.path_and_query().map_or(0, |text| text.as_str().len());
    if uri > limits::MAX_URI_BYTES {
        return Err(Error::new(StatusCode::URI_TOO_LONG, "the path and query are too long"));
    }
    if head.uri.path_and_query().is_some_and(|text| nul::in_uri(text.as_str())) {
        return Err(nul::refused("the path or query"));
    }
    // RFC 9112 §3.2. With two, a proxy and this server could disagree about the request's host.
    let hosts = head.headers.get_all(HOST).iter().count();
    if hosts > 1 || (hosts == 0 && head.version == Version::HTTP_11) {
        return Err(Error::bad_request("an HTTP/1.1 request has exactly one Host header"));
    }
    let headers: usize = head.headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
    if uri + headers > limits::MAX_HEADER_BYTES {
        let status = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
        return Err(Error::new(status, "the request's headers are too large"));
    }
    Ok(())
}

/// Turns the response of a GET into that of a HEAD: same headers, with the body's length, and no body.
fn without_body(response: &mut Response) {
    let length = response.body().length();
    if let Some(length) = length.filter(|_| response.status() != StatusCode::NO_CONTENT) {
        response.headers_mut().entry(CONTENT_LENGTH).or_insert(length.into());
    }
    *response.body_mut() = Body::default();
}

/// Asserts that connections can share `Http`.
const _: fn() = || {
    fn is_shared<T: Send + Sync>() {}
    is_shared::<Arc<Http>>();
};
