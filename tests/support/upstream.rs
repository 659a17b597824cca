//! A server that answers what a test says and remembers what it was asked.

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

/// One request that came.
#[derive(Clone, Debug)]
pub struct Asked {
    pub method: Method,
    pub path_and_query: String,
    pub headers: HeaderMap,
    pub body: Bytes,
}

/// The running server.
pub struct Upstream {
    pub address: SocketAddr,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Upstream {
    pub async fn start(answer: impl Fn(&Asked) -> Response<Bytes> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("a bound socket has an address");
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (keep, answer) = (Arc::clone(&asked), Arc::new(answer));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (keep, answer) = (Arc::clone(&keep), Arc::clone(&answer));
                let service = service_fn(move |request: http::Request<Incoming>| {
                    let (keep, answer) = (Arc::clone(&keep), Arc::clone(&answer));
                    async move {
                        let (head, body) = request.into_parts();
                        let body = body.collect().await.expect("a whole request").to_bytes();
                        let path_and_query = head.uri.path_and_query().map(ToString::to_string);
                        let one = Asked {
                            method: head.method,
                            path_and_query: path_and_query.unwrap_or_default(),
                            headers: head.headers,
                            body,
                        };
                        let response = answer(&one).map(Full::new);
                        keep.lock().expect("no test panics here").push(one);
                        Ok::<_, Infallible>(response)
                    }
                });
                let http = hyper::server::conn::http1::Builder::new();
                tokio::spawn(http.serve_connection(TokioIo::new(stream), service));
            }
        });
        Self { address, asked }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What it was asked so far, in order.
    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().expect("no test panics here").clone()
    }
}

/// A response with a status, a type and a body.
pub fn respond(status: u16, kind: &str, body: impl Into<Bytes>) -> Response<Bytes> {
    Response::builder().status(status).header("content-type", kind).body(body.into()).expect("a response")
}
