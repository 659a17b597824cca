//! An HTTP server that responds as a test specifies, and records the requests.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{HeaderMap, Method, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

/// Bytes of a body that are recorded. Tests of memory send large ones for as long as they run.
const RECORDED_BYTES: usize = 8 << 20;

/// A request that the server received.
#[derive(Clone, Debug)]
pub struct ReceivedRequest {
    pub method: Method,
    pub path_and_query: String,
    pub headers: HeaderMap,
    /// Its beginning, if it is large.
    pub body: Bytes,
}

/// The running server.
#[derive(Debug)]
pub struct Upstream {
    pub address: SocketAddr,
    requests: Arc<Mutex<Vec<ReceivedRequest>>>,
}

impl Upstream {
    pub async fn start(answer: impl Fn(&ReceivedRequest) -> Response<Bytes> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("a bound socket has an address");
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (log, answer) = (Arc::clone(&requests), Arc::new(answer));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (log, answer) = (Arc::clone(&log), Arc::clone(&answer));
                let service = service_fn(move |request: http::Request<Incoming>| {
                    let (log, answer) = (Arc::clone(&log), Arc::clone(&answer));
                    async move {
                        let (head, body) = request.into_parts();
                        let body = body.collect().await.expect("a whole request").to_bytes();
                        let path_and_query = head.uri.path_and_query().map(ToString::to_string);
                        let mut request = ReceivedRequest {
                            method: head.method,
                            path_and_query: path_and_query.unwrap_or_default(),
                            headers: head.headers,
                            body,
                        };
                        let response = answer(&request).map(Full::new);
                        if request.body.len() > RECORDED_BYTES {
                            request.body = Bytes::copy_from_slice(&request.body[..RECORDED_BYTES]);
                        }
                        log.lock().expect("no test panics here").push(request);
                        Ok::<_, Infallible>(response)
                    }
                });
                let http = hyper::server::conn::http1::Builder::new();
                tokio::spawn(http.serve_connection(TokioIo::new(stream), service));
            }
        });
        Self { address, requests }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The requests received so far, in order.
    pub fn requests(&self) -> Vec<ReceivedRequest> {
        self.requests.lock().expect("no test panics here").clone()
    }
}

/// Builds a response with a status, a content type and a body.
pub fn respond(status: u16, kind: &str, body: impl Into<Bytes>) -> Response<Bytes> {
    Response::builder().status(status).header("content-type", kind).body(body.into()).expect("a response")
}
