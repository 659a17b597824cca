//! The HTTP server as clients see it: limits, unknown paths and methods, slow clients, CORS, graceful shutdown.

use std::process::Command;
use std::time::{Duration, Instant};

use belvedere_standins::database::sqlite_url;
use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::instance::Instance;

/// A server without a stream, on SQLite only, since nothing here depends on the database.
async fn server() -> (Instance, tempfile::TempDir) {
    let (url, directory) = sqlite_url();
    (Instance::start(&url, "none").await, directory)
}

/// Sends raw bytes. Returns what the server sends until it closes the connection.
async fn raw(server: &Instance, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    let mut answer = Vec::new();
    let _ = tokio::time::timeout(Duration::from_secs(10), stream.read_to_end(&mut answer)).await;
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn not_found_responses_are_json() {
    let (server, _directory) = server().await;
    for path in ["/admin", "/nothing", "/admin/lexicons/a/b", "/xrpc", "/xrpc/"] {
        let answer = server.request(Method::GET, path, &[], None).await;
        assert_eq!((answer.status, answer.error()), (StatusCode::NOT_FOUND, "not found"), "{path}");
    }
    let answer = server.request(Method::PUT, "/admin/lexicons", &[], None).await;
    assert_eq!((answer.status, answer.error()), (StatusCode::METHOD_NOT_ALLOWED, "method not allowed"));
    assert_eq!(answer.headers["allow"], "GET, HEAD, POST, OPTIONS");
    let answer = server.request(Method::OPTIONS, "/admin/lexicons", &[], None).await;
    assert_eq!(answer.status, StatusCode::NO_CONTENT);
    let head = server.request(Method::HEAD, "/health", &[], None).await;
    assert_eq!((head.status, head.text.as_str()), (StatusCode::OK, ""));
    assert_eq!(head.headers["content-length"], "2");
}

#[tokio::test]
async fn responses_have_request_ids_and_invalid_bodies_get_a_reason() {
    let (server, _directory) = server().await;
    let answer = server.request(Method::GET, "/health", &[("x-request-id", "mine-1")], None).await;
    assert_eq!(answer.headers["x-request-id"], "mine-1");
    let answer = server.request(Method::GET, "/health", &[("x-request-id", "<not sane>")], None).await;
    assert_eq!(answer.headers["x-request-id"].len(), 16);

    let key = format!("Bearer {}", server.admin_key);
    for body in ["", "{", "[]", "\"x\"", "{\"lexicon_json\": 5}"] {
        let headers = [("authorization", key.as_str())];
        let answer = server.request(Method::POST, "/admin/lexicons", &headers, Some(body.to_owned())).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{body}");
        assert!(!answer.error().is_empty(), "{body}");
    }
}

#[tokio::test]
async fn sizes_are_bounded() {
    let (server, _directory) = server().await;
    let key = format!("Bearer {}", server.admin_key);
    let headers = [("authorization", key.as_str())];
    let large = json!({ "lexicon_json": { "x": "y".repeat(1024 * 1024) } }).to_string();
    let answer = server.request(Method::POST, "/admin/lexicons", &headers, Some(large)).await;
    assert_eq!(answer.status, StatusCode::PAYLOAD_TOO_LARGE);
    assert!(answer.error().contains("larger"), "{}", answer.text);

    // Without a content-length the bytes are counted while they arrive.
    let start = format!(
        "POST /admin/lexicons HTTP/1.1\r\nhost: x\r\nauthorization: {key}\r\ntransfer-encoding: chunked\r\n\r\n"
    );
    let chunk = format!("{:x}\r\n{}\r\n", 65536, "z".repeat(65536));
    let answer = raw(&server, (start + &chunk.repeat(140)).as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");

    // A content-length over the limit is refused before the body is read.
    for (length, refused) in [((5 << 20) + 1, true), (5 << 20, false)] {
        let head = format!(
            "PUT /admin/settings/logo HTTP/1.1\r\nhost: x\r\nauthorization: {key}\r\ncontent-type: image/png\r\n\
             content-length: {length}\r\nconnection: close\r\n\r\n"
        );
        let body = if refused { String::new() } else { "x".repeat(length) };
        let answer = raw(&server, (head + &body).as_bytes()).await;
        assert!(answer.starts_with(if refused { "HTTP/1.1 413" } else { "HTTP/1.1 204" }), "{answer}");
    }

    // A caller without permission is refused before the body is read.
    let start = "POST /admin/lexicons HTTP/1.1\r\nhost: x\r\ncontent-length: 1000000\r\n\r\n";
    let answer = raw(&server, start.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 401"), "{answer}");

    // Its client sees the answer, though it sends all of a large body first.
    let head =
        "POST /admin/lexicons HTTP/1.1\r\nhost: x\r\ncontent-length: 20000000\r\nconnection: close\r\n\r\n";
    let answer = raw(&server, &[head.as_bytes(), &vec![b'x'; 20_000_000]].concat()).await;
    assert!(answer.starts_with("HTTP/1.1 401"), "{answer}");

    let long = format!("/{}", "p".repeat(9000));
    let answer = server.request(Method::GET, &long, &[], None).await;
    assert_eq!(
        (answer.status, answer.error()),
        (StatusCode::URI_TOO_LONG, "the path and query are too long")
    );
    let value = "v".repeat(40_000);
    let answer = server.request(Method::GET, "/health", &[("x-large", &value)], None).await;
    assert_eq!(answer.status, StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE);
    assert!(answer.error().contains("headers"));
}

#[tokio::test]
async fn malformed_requests_do_no_harm() {
    let (server, _directory) = server().await;
    for bytes in [
        &b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"[..],
        b"GET\r\n\r\n",
        b"GET /health HTTP/9.9\r\n\r\n",
        b"GET /health HTTP/1.1\r\nbad header\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nnonsense",
        b"POST /admin/lexicons HTTP/1.1\r\nhost: x\r\ncontent-length: -1\r\n\r\n",
        b"POST /admin/lexicons HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        b"\0\0\0\0",
    ] {
        let answer = raw(&server, bytes).await;
        assert!(!answer.contains("HTTP/1.1 2") && !answer.contains("HTTP/1.1 5"), "{answer}");
    }
    assert_eq!(server.request(Method::GET, "/health", &[], None).await.text, "ok");
}

#[tokio::test]
async fn a_request_must_have_exactly_one_host() {
    let (server, _directory) = server().await;
    for (head, status) in [
        ("GET /health HTTP/1.1\r\n", 400),
        ("GET http://a/health HTTP/1.1\r\n", 400),
        ("GET /health HTTP/1.1\r\nhost: a\r\nhost: b\r\n", 400),
        ("GET /health HTTP/1.1\r\nhost: a\r\nHost: a\r\n", 400),
        ("GET /health HTTP/1.0\r\nhost: a\r\nhost: a\r\n", 400),
        ("GET /health HTTP/1.1\r\nhost: a\r\n", 200),
        ("GET /health HTTP/1.1\r\nhost:\r\n", 200),
        ("GET /health HTTP/1.0\r\n", 200),
    ] {
        let answer = raw(&server, format!("{head}connection: close\r\n\r\n").as_bytes()).await;
        assert!(answer.contains(&format!(" {status} ")), "{head}: {answer}");
        assert_eq!(
            answer.contains(r#"{"error":"an HTTP/1.1 request has"#),
            status == 400,
            "{head}: {answer}"
        );
    }
}

#[tokio::test]
async fn http2_without_tls_is_served() {
    let (server, _directory) = server().await;
    let stream = TcpStream::connect(server.address).await.unwrap();
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    for _ in 0..3 {
        let request = Request::get(format!("http://{}/health", server.address));
        let response = sender.send_request(request.body(Full::<Bytes>::default()).unwrap()).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "ok");
    }
}

#[tokio::test]
async fn pages_of_other_origins_may_call_and_read() {
    let (server, _directory) = server().await;
    let preflight = [
        ("origin", "https://app.example"),
        ("access-control-request-method", "DELETE"),
        ("access-control-request-headers", "authorization,dpop,x-client-key"),
    ];
    let answer = server.request(Method::OPTIONS, "/oauth/sessions/did:plc:x", &preflight, None).await;
    assert_eq!(answer.status, StatusCode::NO_CONTENT);
    assert_eq!(answer.headers["access-control-allow-origin"], "https://app.example");
    assert_eq!(answer.headers["access-control-max-age"], "86400");
    let allowed = answer.headers["access-control-allow-headers"].to_str().unwrap();
    for header in ["authorization", "dpop", "x-client-key", "signature-input", "atproto-space-audience"] {
        assert!(allowed.contains(header), "{header} is missing in {allowed}");
    }

    // Error responses need the header too: without it a page can't read the status.
    let answer = server.request(Method::GET, "/xrpc/a.b.c", &[("origin", "https://app.example")], None).await;
    assert_eq!(answer.status, StatusCode::UNAUTHORIZED);
    assert_eq!(answer.headers["access-control-allow-origin"], "https://app.example");
    assert_eq!(answer.headers["vary"], "Origin");
    assert!(!answer.headers.contains_key("access-control-allow-credentials"));
    assert!(answer.headers["access-control-expose-headers"].to_str().unwrap().contains("ratelimit-limit"));

    let own = format!("http://{}", server.address);
    let answer = server.request(Method::GET, "/health", &[("origin", &own)], None).await;
    assert_eq!(answer.headers["access-control-allow-credentials"], "true");
}

/// Takes as long as the server's timeout for a request head.
#[tokio::test]
async fn slow_clients_are_disconnected_and_others_are_served() {
    let (server, _directory) = server().await;
    let dripping = async {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        let (mut reader, mut writer) = stream.split();
        let drip = async {
            for byte in b"GET /health HTTP/1.1\r\nx-slow: ".iter().chain(std::iter::repeat(&b'a')) {
                if writer.write_all(&[*byte]).await.is_err() {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
        };
        let closed = async {
            let mut bytes = [0; 64];
            while matches!(reader.read(&mut bytes).await, Ok(count) if count > 0) {}
        };
        tokio::select! { () = drip => {}, () = closed => {} }
    };
    let silent = async {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        let _ = stream.read_to_end(&mut Vec::new()).await;
    };
    let started = Instant::now();
    let others = async {
        while started.elapsed() < Duration::from_secs(5) {
            assert_eq!(server.request(Method::GET, "/health", &[], None).await.status, StatusCode::OK);
        }
    };
    tokio::time::timeout(Duration::from_secs(40), async { tokio::join!(dripping, silent, others) })
        .await
        .expect("slow clients are disconnected");
}

/// A request whose body is partly sent: in flight until the test sends the rest.
struct HalfSent {
    stream: TcpStream,
    rest: &'static [u8],
}

impl HalfSent {
    async fn begin(server: &Instance) -> Self {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        let body = br#"{"lexicon_json":5}"#;
        let head = format!(
            "POST /admin/lexicons HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {}\r\ncontent-length: {}\r\n\r\n",
            server.admin_key,
            body.len()
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.write_all(&body[..5]).await.unwrap();
        // Wait until the server has read the head.
        tokio::time::sleep(Duration::from_millis(300)).await;
        Self { stream, rest: &body[5..] }
    }

    async fn finish(mut self) -> String {
        self.stream.write_all(self.rest).await.unwrap();
        let mut answer = String::new();
        self.stream.read_to_string(&mut answer).await.unwrap();
        answer
    }
}

fn terminate(server: &Instance) {
    let status = Command::new("kill").args(["-TERM", &server.pid().to_string()]).status();
    assert!(status.unwrap().success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sigterm_lets_requests_in_flight_finish() {
    let (mut server, _directory) = server().await;
    let request = HalfSent::begin(&server).await;
    terminate(&server);
    server
        .eventually("new connections are refused", async |s| TcpStream::connect(s.address).await.is_err())
        .await;
    let answer = request.finish().await;
    assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
    assert!(answer.to_ascii_lowercase().contains("connection: close"), "{answer}");
    assert_eq!(server.wait(), Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_signal_stops_at_once() {
    let (mut server, _directory) = server().await;
    let _request = HalfSent::begin(&server).await;
    terminate(&server);
    tokio::time::sleep(Duration::from_millis(300)).await;
    let started = Instant::now();
    assert_eq!(server.stop(), Some(1), "not everything was finished");
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
}
