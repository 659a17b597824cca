//! A proxy in front of a server that loses calls of one method: it answers them as if they had arrived.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use reqwest::StatusCode;
use reqwest::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use tokio::net::TcpListener;

use crate::network::http;

pub struct Lossy {
    pub address: SocketAddr,
    state: Arc<State>,
}

struct State {
    server: OnceLock<String>,
    method: &'static str,
    /// The number of calls of ten that are lost.
    lost_of_ten: u64,
    calls: AtomicU64,
    lost: AtomicU64,
}

impl Lossy {
    pub async fn start(method: &'static str, lost_of_ten: u64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("a bound socket has an address");
        let (server, calls, lost) = Default::default();
        let state = Arc::new(State { server, method, lost_of_ten, calls, lost });
        let shared = Arc::clone(&state);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let state = Arc::clone(&shared);
                let service = service_fn(move |request| {
                    let state = Arc::clone(&state);
                    async move { Ok::<_, Infallible>(state.answer(request).await) }
                });
                let http = hyper::server::conn::http1::Builder::new();
                tokio::spawn(http.serve_connection(TokioIo::new(stream), service));
            }
        });
        Self { address, state }
    }

    /// The server that receives the calls.
    pub fn forward_to(&self, url: &str) {
        self.state.server.set(url.to_owned()).expect("the server is set once");
    }

    /// The calls of the method that were lost.
    pub fn lost(&self) -> u64 {
        self.state.lost.load(Ordering::Relaxed)
    }
}

impl State {
    async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let path = request.uri().path_and_query().map(ToString::to_string).unwrap_or_default();
        if path.ends_with(self.method) {
            // Three, six and nine of ten, so that neighbours are lost too.
            let number = self.calls.fetch_add(1, Ordering::Relaxed);
            if number * 7 % 10 < self.lost_of_ten {
                self.lost.fetch_add(1, Ordering::Relaxed);
                return Response::new(Full::from(r#"{"success":true}"#));
            }
        }
        let server = self.server.get().expect("the server runs");
        let (head, body) = request.into_parts();
        let body = body.collect().await.expect("a whole request").to_bytes();
        let forwarded =
            http().request(head.method, format!("{server}{path}")).headers(head.headers).body(body);
        let Ok(answer) = forwarded.send().await else {
            let mut failed = Response::new(Full::default());
            *failed.status_mut() = StatusCode::BAD_GATEWAY;
            return failed;
        };
        let (status, mut headers) = (answer.status(), answer.headers().clone());
        for name in [CONTENT_LENGTH, TRANSFER_ENCODING] {
            headers.remove(name);
        }
        let body = answer.bytes().await.unwrap_or_default();
        let mut response = Response::new(Full::new(body));
        (*response.status_mut(), *response.headers_mut()) = (status, headers);
        response
    }
}
