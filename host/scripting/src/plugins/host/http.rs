//! `http`: sends requests to the hosts that the operator granted, through the guarded client. Every hop of a redirect is
//! checked too.

use std::pin::pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use http::Method;
use http::header::{EXPECT, HeaderMap, HeaderName, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION};
use tokio::sync::Notify;
use tokio::time::Instant;
use url::{Host as UrlHost, Url};

use super::permits::HostPermits;
use super::state::CallState;
use super::{Refusal, fault};
use crate::plugins::bindings::belvedere::plugin::http::{Host, Request, Response};
use crate::plugins::bindings::belvedere::plugin::types::{Fault, FaultCode};
use crate::plugins::limits;
use crate::plugins::manifest::{Grants, Permission};
use crate::plugins::values::RunContext;
use belvedere_wasm::sandbox::outbound_headers;
use belvedere_web::fair_share::Tenant;
use belvedere_web::net::{Client, FetchedResponse, Limits, NetError};

/// Headers that belong to one connection, besides those that the client writes itself.
const RESERVED_HEADERS: [HeaderName; 3] = [EXPECT, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION];
/// More of them, without a constant in the library.
const RESERVED_NAMES: [&str; 2] = ["keep-alive", "proxy-connection"];

/// Methods that a plugin may send.
const METHODS: [Method; 6] =
    [Method::GET, Method::HEAD, Method::POST, Method::PUT, Method::PATCH, Method::DELETE];

impl Host for CallState {
    async fn send(&mut self, request: Request) -> Result<Response, Refusal> {
        let none = || Err(fault::new(FaultCode::Internal, "http.send: no response"));
        let mut responses = send(self, "http.send", vec![request]).await?;
        Ok(responses.pop().unwrap_or_else(none)?)
    }

    async fn send_all(&mut self, requests: Vec<Request>) -> wasmtime::Result<Vec<Result<Response, Fault>>> {
        let count = requests.len();
        match send(self, "http.send-all", requests).await {
            Ok(responses) => Ok(responses),
            Err(refusal) => Ok(vec![Err(refusal.into_fault()?); count.min(limits::HTTP_BATCH)]),
        }
    }
}

/// A request that was checked.
struct ValidRequest {
    method: Method,
    url: Url,
    headers: HeaderMap,
    body: Option<Bytes>,
    time: Duration,
    redirects: u8,
}

/// The state that the requests of one call share.
struct Batch {
    plugin: Arc<str>,
    grants: Grants,
    tenant: Tenant,
    permits: HostPermits,
    run: Option<RunContext>,
    net: Client,
    deadline: Instant,
    /// Requests of the call so far, redirects included.
    requests: AtomicU32,
    /// The most bytes of one response.
    share: usize,
    bytes: Mutex<BatchBytes>,
    /// Notified when bytes that were reserved are free again.
    freed: Notify,
}

/// Bytes of a batch's responses.
#[derive(Default)]
struct BatchBytes {
    received: usize,
    /// The bytes of the requests that are being sent.
    reserved: usize,
}

/// Ends the call when there was no memory for the responses.
async fn send(
    state: &mut CallState,
    function: &str,
    requests: Vec<Request>,
) -> Result<Vec<Result<Response, Fault>>, Refusal> {
    state.memory.results.begin().await;
    let responses = send_all(state, function, requests).await;
    state.memory.results.check()?;
    Ok(responses?)
}

async fn send_all(
    state: &mut CallState,
    function: &str,
    requests: Vec<Request>,
) -> Result<Vec<Result<Response, Fault>>, Fault> {
    let account = state.account(function)?;
    if requests.len() > limits::HTTP_BATCH {
        return Err(fault::quota("too many requests at once", limits::HTTP_BATCH));
    }
    let batch = Batch {
        plugin: Arc::clone(&state.plugin),
        grants: account.grants.clone(),
        tenant: account.tenant.clone(),
        permits: state.permits.clone(),
        run: state.run.clone(),
        net: state.services.net.in_memory(Arc::new(state.memory.results.clone())),
        deadline: state.deadline,
        requests: AtomicU32::new(state.requests),
        share: share(requests.len()),
        bytes: Mutex::default(),
        freed: Notify::new(),
    };
    state.wait_for_host(true);
    let exchanges = requests.into_iter().map(async |request| batch.exchange(check(request)?).await);
    let responses = stream::iter(exchanges).buffered(limits::HTTP_CONCURRENT).collect().await;
    state.wait_for_host(false);
    state.requests = batch.requests.into_inner();
    Ok(responses)
}

impl Batch {
    async fn exchange(&self, request: ValidRequest) -> Result<Response, Fault> {
        let reserved = self.reserve().await?;
        let max_wait = self.deadline.saturating_duration_since(Instant::now());
        let permit = self.permits.request(&self.plugin, &self.tenant, max_wait).await;
        let _permit = permit.map_err(|full| {
            self.settle(reserved, 0);
            let text = format!("too many calls are waiting for other servers: {full}");
            fault::new(FaultCode::RateLimited, text)
        })?;
        let total = request.time.min(self.deadline.saturating_duration_since(Instant::now()));
        let cap = Limits { max_bytes: reserved, total };
        let ValidRequest { method, url, headers, body, redirects, .. } = request;
        let mut refused = None;
        let each = |method: &Method, url: &Url| {
            self.permit(method, url).map_err(|fault| {
                let text = fault.message.clone();
                refused = Some(fault);
                NetError::Refused(text)
            })
        };
        let answer = match redirects {
            0 => {
                let mut each = each;
                match each(&method, &url) {
                    Ok(client) => client.request(method, url.as_str(), headers, body, cap).await,
                    Err(error) => Err(error),
                }
            }
            redirects => Client::follow_each(method, url.as_str(), headers, body, cap, redirects, each).await,
        };
        let received = match &answer {
            Ok(fetched) => fetched.body.len(),
            Err(NetError::TooLarge(max)) => *max,
            Err(_) => 0,
        };
        self.settle(reserved, received);
        if let Some(fault) = refused {
            return Err(fault);
        }
        answer.map(response).map_err(|error| match error {
            // The limit was what the batch had for it, not what one response may have.
            NetError::TooLarge(max) if max < limits::HTTP_BODY_BYTES => batch_too_large(),
            error => fault::no_response(&error),
        })
    }

    /// Waits until the batch has bytes for a response, and reserves them. Requests that are being sent free theirs.
    async fn reserve(&self) -> Result<usize, Fault> {
        loop {
            let mut freed = pin!(self.freed.notified());
            freed.as_mut().enable();
            {
                let mut bytes = self.bytes();
                let left = limits::HTTP_BATCH_BYTES.saturating_sub(bytes.received);
                if left == 0 {
                    return Err(batch_too_large());
                }
                let wanted = self.share.min(left);
                if bytes.reserved + wanted <= left {
                    bytes.reserved += wanted;
                    return Ok(wanted);
                }
            }
            freed.await;
        }
    }

    /// Ends a reservation.
    fn settle(&self, reserved: usize, received: usize) {
        let mut bytes = self.bytes();
        bytes.reserved -= reserved;
        bytes.received += received.min(reserved);
        drop(bytes);
        self.freed.notify_waiters();
    }

    fn bytes(&self) -> MutexGuard<'_, BatchBytes> {
        self.bytes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The client for a hop that the operator granted.
    fn permit(&self, method: &Method, url: &Url) -> Result<Client, Fault> {
        if self.requests.fetch_add(1, Ordering::Relaxed) >= limits::HTTP_REQUESTS {
            return Err(fault::quota("too many requests to other servers", limits::HTTP_REQUESTS));
        }
        if let Some(run) = &self.run
            && !run.take_request()
        {
            return Err(fault::quota("too many requests by the script's run", limits::HTTP_REQUESTS));
        }
        let host = match url.host() {
            Some(UrlHost::Domain(name)) => name.to_ascii_lowercase(),
            Some(address) => address.to_string(),
            None => String::new(),
        };
        let is_named = self.grants.names_host(&host, method);
        if is_named && (is_default_https(url) || is_loopback(&host)) {
            return Ok(self.net.clone());
        }
        if self.grants.contains(&Permission::UnrestrictedNetwork) {
            return Ok(self.net.without_exemptions());
        }
        let but = if is_named { " that are not https on port 443" } else { "" };
        Err(fault::forbidden(format!("the operator did not grant {method} requests to {host}{but}")))
    }
}

/// A grant of a host is one of its service on the web, not of what else may listen there.
fn is_default_https(url: &Url) -> bool {
    url.scheme() == "https" && url.port().is_none()
}

/// This machine, which the guarded client reaches only if plugins may call it at all. It has services for tests.
fn is_loopback(host: &str) -> bool {
    host == "localhost"
}

/// The most bytes of one response in a batch of `requests`: those that are sent at the same time fit together.
fn share(requests: usize) -> usize {
    let together = requests.clamp(1, limits::HTTP_CONCURRENT);
    limits::HTTP_BODY_BYTES.min(limits::HTTP_BATCH_BYTES / together)
}

fn batch_too_large() -> Fault {
    let max = limits::HTTP_BATCH_BYTES;
    let text = format!("the responses are larger than {max} bytes in all, or one than its share of them");
    fault::new(FaultCode::TooLarge, text)
}

fn check(request: Request) -> Result<ValidRequest, Fault> {
    let url = &request.url;
    if url.len() > limits::URL_BYTES {
        return Err(fault::bad_input(format!("a URL has at most {} bytes", limits::URL_BYTES)));
    }
    let url = Url::parse(url).map_err(|error| fault::bad_input(format!("not a URL: {error}")))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(fault::bad_input("a URL begins with https://"));
    }
    let method = METHODS.into_iter().find(|method| method.as_str() == request.method);
    let method = method
        .ok_or_else(|| fault::bad_input("a method is one of GET, HEAD, POST, PUT, PATCH and DELETE"))?;
    let body = request.body.map(Bytes::from);
    if body.as_ref().is_some_and(|body| body.len() > limits::HTTP_BODY_BYTES) {
        let text = format!("the body is larger than {} bytes", limits::HTTP_BODY_BYTES);
        return Err(fault::new(FaultCode::TooLarge, text));
    }
    let time = request.timeout_ms.map_or(limits::HTTP_TIME, |ms| Duration::from_millis(u64::from(ms)));
    Ok(ValidRequest {
        method,
        url,
        headers: headers(request.headers)?,
        body,
        time: time.min(limits::HTTP_MAX_TIME),
        redirects: if request.follow_redirects { limits::HTTP_REDIRECTS } else { 0 },
    })
}

fn headers(given: Vec<(String, String)>) -> Result<HeaderMap, Fault> {
    let bytes: usize = given.iter().map(|(name, value)| name.len() + value.len()).sum();
    if given.len() > limits::HTTP_HEADERS || bytes > limits::HTTP_HEADER_BYTES {
        let (count, bytes) = (limits::HTTP_HEADERS, limits::HTTP_HEADER_BYTES);
        return Err(fault::bad_input(format!(
            "a request has at most {count} headers of {bytes} bytes in all"
        )));
    }
    let is_reserved =
        |name: &HeaderName| RESERVED_HEADERS.contains(name) || RESERVED_NAMES.contains(&name.as_str());
    outbound_headers(given.into_iter(), is_reserved).map_err(fault::bad_input)
}

fn response(fetched: FetchedResponse) -> Response {
    let headers = fetched.headers.iter();
    Response {
        status: fetched.status.as_u16(),
        headers: headers.map(|(name, value)| (name.as_str().to_owned(), value.as_bytes().to_vec())).collect(),
        body: fetched.body.into(),
    }
}
