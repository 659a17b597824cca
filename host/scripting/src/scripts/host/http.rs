//! `http`: sends requests to the servers that a script names, through the guarded client.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use http::HeaderMap;
use url::Url;

use super::allowances::too_many_bytes;
use super::state::RunState;
use super::{Refusal, fault, report};
use crate::scripts::bindings::belvedere::script::http::{Header, Host, Method, Outcome, Request, Response};
use crate::scripts::bindings::belvedere::script::types::{Fault, FaultCode};
use crate::scripts::dry_run::DryRun;
use crate::scripts::limits;
use belvedere_wasm::sandbox::outbound_headers;
use belvedere_web::net::{Client, FetchedResponse, Limits, NetError};

impl Host for RunState {
    async fn send(&mut self, requests: Vec<Request>) -> Result<Vec<Outcome>, Refusal> {
        let results = self.memory.results.clone();
        results.begin().await;
        let outcomes = match self.dry_run().cloned() {
            Some(dry_run) => send_reads(self, &dry_run, requests).await,
            None => send_all(self, requests).await,
        };
        results.check()?;
        Ok(outcomes?)
    }
}

/// A request that was checked.
struct ValidRequest {
    method: http::Method,
    url: String,
    headers: HeaderMap,
    body: Option<Bytes>,
}

/// The state that the requests of one call share: they are sent concurrently, within the limits that they would have
/// one after the other.
struct Batch {
    client: Client,
    started: Instant,
    /// The time that the run may still wait.
    time: Duration,
    /// Bytes of answers that the run has received.
    received: AtomicUsize,
}

/// In a dry run: sends the requests that only read, if it may use the network.
async fn send_reads(
    state: &mut RunState,
    dry_run: &DryRun,
    requests: Vec<Request>,
) -> Result<Vec<Outcome>, Fault> {
    if requests.len() > limits::HTTP_BATCH {
        return Err(fault::limit("too many requests at once", limits::HTTP_BATCH));
    }
    let mut outcomes = Vec::with_capacity(requests.len());
    for request in requests {
        let bytes = request.body.as_ref().map_or(0, Vec::len);
        match report::request(dry_run, &method(request.method), &request.url, bytes) {
            Some(outcome) => {
                state.count_call()?;
                outcomes.push(outcome);
            }
            None => outcomes.extend(send_all(state, vec![request]).await?),
        }
    }
    Ok(outcomes)
}

async fn send_all(state: &mut RunState, requests: Vec<Request>) -> Result<Vec<Outcome>, Fault> {
    let web = state.service("http", |services| services.web.clone())?;
    if requests.len() > limits::HTTP_BATCH {
        return Err(fault::limit("too many requests at once", limits::HTTP_BATCH));
    }
    state.outbound.count(requests.len())?;
    state.outbound.time_left()?;
    let permit = state.outbound_permit(&web).await?;
    let (time, before) = (state.outbound.time_left()?, state.outbound.bytes());
    let client = web.client().in_memory(Arc::new(state.memory.results.clone()));
    let batch = Batch { client, started: Instant::now(), time, received: AtomicUsize::new(before) };
    let exchanges = requests.into_iter().map(async |request| {
        let answer = match check(request) {
            Ok(request) => batch.exchange(request).await,
            Err(fault) => Err(fault),
        };
        match answer {
            Ok(response) => Outcome { response: Some(response), fault: None },
            Err(fault) => Outcome { response: None, fault: Some(fault) },
        }
    });
    let outcomes = stream::iter(exchanges).buffered(limits::HTTP_CONCURRENT).collect().await;
    drop(permit);
    state.outbound.charge(batch.received.load(Ordering::Relaxed) - before, batch.started.elapsed());
    Ok(outcomes)
}

impl Batch {
    async fn exchange(&self, request: ValidRequest) -> Result<Response, Fault> {
        let bytes_left = limits::HTTP_RUN_BYTES.saturating_sub(self.received.load(Ordering::Relaxed));
        if bytes_left == 0 {
            return Err(too_many_bytes());
        }
        let total = self.time.saturating_sub(self.started.elapsed()).min(limits::HTTP_TIME);
        let cap = Limits { max_bytes: bytes_left.min(limits::HTTP_BODY_BYTES), total };
        let ValidRequest { method, url, headers, body } = request;
        let answer = self.client.follow(method, &url, headers, body, cap, limits::HTTP_REDIRECTS).await;
        let received = match &answer {
            Ok(fetched) => fetched.body.len(),
            Err(NetError::TooLarge(max)) => *max,
            Err(_) => 0,
        };
        let before = self.received.fetch_add(received, Ordering::Relaxed);
        if before + received > limits::HTTP_RUN_BYTES {
            // Several answers arrived together, each within what was left when its request was sent.
            return Err(too_many_bytes());
        }
        answer.map(response).map_err(|error| match error {
            // The limit was what the run had left, not what one answer may have.
            NetError::TooLarge(max) if max < limits::HTTP_BODY_BYTES => too_many_bytes(),
            error => fault::no_response(&error),
        })
    }
}

fn check(request: Request) -> Result<ValidRequest, Fault> {
    let bad = |message: String| fault::new(FaultCode::BadInput, message);
    let url = Url::parse(&request.url).map_err(|error| bad(format!("not a URL: {error}")))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(bad("a URL begins with https://".to_owned()));
    }
    let headers = request.headers.into_iter().map(|Header { name, value }| (name, value));
    let headers = outbound_headers(headers, |_| false).map_err(bad)?;
    let body = request.body.map(Bytes::from);
    if body.as_ref().is_some_and(|body| body.len() > limits::HTTP_BODY_BYTES) {
        return Err(fault::limit("the body is too large", format!("{} bytes", limits::HTTP_BODY_BYTES)));
    }
    Ok(ValidRequest { method: method(request.method), url: url.into(), headers, body })
}

fn method(method: Method) -> http::Method {
    match method {
        Method::Get => http::Method::GET,
        Method::Post => http::Method::POST,
        Method::Put => http::Method::PUT,
        Method::Patch => http::Method::PATCH,
        Method::Delete => http::Method::DELETE,
        Method::Head => http::Method::HEAD,
    }
}

fn response(fetched: FetchedResponse) -> Response {
    let headers = fetched.headers.iter();
    Response {
        status: fetched.status.as_u16(),
        headers: headers
            .map(|(name, value)| Header { name: name.as_str().to_owned(), value: value.as_bytes().to_vec() })
            .collect(),
        body: fetched.body.into(),
    }
}
