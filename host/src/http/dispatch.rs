//! What happens to every request around its handler: id, limits, CORS, routing, panics, the log line.

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
use super::answers::{Answers, NoRoom, Outgoing, Room};
use super::body::Unread;
use super::cors::Cors;
use super::id::{Ids, X_REQUEST_ID};
use super::measure::Measure;
use super::router::{Endpoint, Found, Router};
use super::watch::Counters;
use super::{Body, Error, Request, Response, limits, nul, response};
use crate::error_text;
use crate::random::Random;

/// The server's answer to requests.
#[derive(Debug)]
pub struct Http {
    router: Router,
    cors: Cors,
    ids: Ids,
    unrouted: Measure,
    answers: Answers,
    /// Whose share of the answers a request takes, by its peer and headers.
    client: Client,
    /// Requests that change something run here to their end, even when the client goes away in the middle.
    tasks: TaskTracker,
    /// How often connections are looked after: [`limits::TICK`], shorter in tests.
    tick: Duration,
}

type FindClient = dyn Fn(IpAddr, &HeaderMap) -> IpAddr + Send + Sync;

/// Finds the address of a client.
struct Client(Box<FindClient>);

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Client")
    }
}

impl Http {
    pub fn new(router: Router, cors: Cors, random: &Random, tasks: TaskTracker) -> Self {
        let (ids, unrouted) = (Ids::new(random), Measure::new("", "(none)"));
        let client = Client(Box::new(|peer, _| peer));
        Self { router, cors, ids, unrouted, answers: Answers::new(), client, tasks, tick: limits::TICK }
    }

    /// For a server behind proxies: `client` finds the address of the client in what the proxy says.
    #[must_use]
    pub fn behind(self, client: impl Fn(IpAddr, &HeaderMap) -> IpAddr + Send + Sync + 'static) -> Self {
        Self { client: Client(Box::new(client)), ..self }
    }

    #[cfg(test)]
    pub(super) fn with_tick(self, tick: Duration) -> Self {
        Self { tick, ..self }
    }

    /// Units of answers that wait for their clients.
    #[cfg(test)]
    pub(super) fn answers_held(&self) -> usize {
        self.answers.held()
    }

    pub(super) fn tick(&self) -> Duration {
        self.tick
    }

    /// Answers one request. Never fails: every failure is a response.
    pub(super) async fn answer(
        &self,
        peer: SocketAddr,
        connection: &Arc<Counters>,
        request: http::Request<Incoming>,
    ) -> http::Response<Outgoing> {
        let started = Instant::now();
        let (head, body) = request.into_parts();
        let id = self.ids.of(&head.headers);
        let origin = Cors::origin(&head.headers).cloned();
        let is_head = head.method == Method::HEAD;
        let log = AccessLog::begin(&head, peer);

        let changes = !head.method.is_safe();
        let client = (self.client.0)(peer.ip(), &head.headers);

        let (mut response, measure) = if self.answers.refuses(client, connection, changes) {
            (no_room().into_response(&id), &self.unrouted)
        } else {
            self.respond(peer.ip(), head, Unread::new(body), &id).await
        };
        if is_head {
            without_body(&mut response);
        }
        let room = self.answers.room(client, connection, &response).await;
        let room = room.unwrap_or_else(|NoRoom| {
            let error = if changes { lost() } else { no_room() };
            response = error.into_response(&id);
            Room::default()
        });
        self.cors.apply(origin.as_ref(), &mut response);
        let elapsed = started.elapsed();
        measure.record(response.status(), elapsed);
        if let Some(log) = log {
            log.end(&response, &id, elapsed);
        }
        if let Ok(id) = HeaderValue::from_maybe_shared(bytes::Bytes::from(id)) {
            response.headers_mut().insert(X_REQUEST_ID, id);
        }
        response.map(|body| room.send(connection, body))
    }

    async fn respond(&self, peer: IpAddr, head: Parts, body: Unread, id: &str) -> (Response, &Measure) {
        if let Err(error) = check_head(&head) {
            return (error.into_response(id), &self.unrouted);
        }
        if let Some(response) = Cors::preflight(&head.method, &head.headers) {
            return (response, &self.unrouted);
        }
        match self.router.find(&head.method, head.uri.path()) {
            Found::Endpoint(endpoint, params) => {
                let request = Request { head, body: bytes::Bytes::new(), params, id: id.to_owned(), peer };
                (self.run(endpoint, request, body, id).await, &endpoint.measure)
            }
            Found::OtherMethods(allow) if head.method == Method::OPTIONS => {
                let mut response = response::empty(StatusCode::NO_CONTENT);
                response.headers_mut().insert(ALLOW, allow);
                (response, &self.unrouted)
            }
            Found::OtherMethods(allow) => {
                let error = Error::new(StatusCode::METHOD_NOT_ALLOWED, "method not allowed");
                (error.with_header(ALLOW, allow).into_response(id), &self.unrouted)
            }
            Found::Nothing => (Error::not_found("not found").into_response(id), &self.unrouted),
        }
    }

    async fn run(&self, endpoint: &Endpoint, request: Request, body: Unread, id: &str) -> Response {
        let changes = !request.head.method.is_safe();
        let answer = AssertUnwindSafe((endpoint.handler)(request, body)).catch_unwind();
        let answer = if changes {
            // A client that hangs up cancels its request. Half a change, stored but not taken over in memory,
            // would be worse than a whole one that nobody waits for.
            self.tasks.spawn(answer).await.unwrap_or_else(|error| Err(Box::new(error.to_string())))
        } else {
            answer.await
        };
        match answer {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => {
                if let Some(cause) = &error.cause {
                    let cause = error_text::with_causes(cause.as_ref());
                    tracing::error!(route = endpoint.pattern, request_id = id, cause, "a request failed");
                }
                error.into_response(id)
            }
            // The panic hook has logged where and why.
            Err(_) => {
                tracing::error!(route = endpoint.pattern, request_id = id, "a handler panicked");
                Error::internal("panic").into_response(id)
            }
        }
    }
}

/// The client, or all of them together, leave too much unread.
fn no_room() -> Error {
    Error::new(StatusCode::SERVICE_UNAVAILABLE, "too many answers wait to be read")
        .with_header(RETRY_AFTER, HeaderValue::from_static("1"))
}

/// As [`no_room`], found out after the change was made: it must not be sent again.
fn lost() -> Error {
    Error::new(
        StatusCode::SERVICE_UNAVAILABLE,
        "the request was carried out, but there is no room for its answer",
    )
}

/// Refuses heads that are larger than any honest one, or ambiguous, or hold what no database can.
fn check_head(head: &Parts) -> Result<(), Error> {
    let uri = head.uri.path_and_query().map_or(0, |text| text.as_str().len());
    if uri > limits::MAX_URI_BYTES {
        return Err(Error::new(StatusCode::URI_TOO_LONG, "the path and query are too long"));
    }
    if head.uri.path_and_query().is_some_and(|text| nul::in_uri(text.as_str())) {
        return Err(nul::refused("the path or query"));
    }
    // RFC 9112, 3.2. Two would let a proxy and this server see two sites in one request.
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

/// HEAD: the headers of the GET, the body's length among them, and no body.
fn without_body(response: &mut Response) {
    let length = http_body::Body::size_hint(response.body()).exact();
    if let Some(length) = length.filter(|_| response.status() != StatusCode::NO_CONTENT) {
        response.headers_mut().entry(CONTENT_LENGTH).or_insert(length.into());
    }
    *response.body_mut() = Body::default();
}

/// So that `Http` can be shared by the connections.
const _: fn() = || {
    fn is_shared<T: Send + Sync>() {}
    is_shared::<Arc<Http>>();
};
