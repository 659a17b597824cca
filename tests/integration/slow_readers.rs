//! Clients that request large responses and read them slowly. Takes as long as the server's timeout for them.

use std::time::Duration;

use belvedere_standins::database::sqlite_url;
use belvedere_standins::http_client;
use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::Full;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use crate::support::instance::{Instance, query_lexicon};
use crate::support::process::free_address;

const QUERY: &str = "com.example.large";

/// The server's timeout is 30 s; the rest is for a busy machine.
const GIVEN_UP_WITHIN: Duration = Duration::from_secs(90);

/// The share of one address in the response memory, in units of 16 KiB.
const SHARE: f64 = 2048.0;

/// Requests the large response and reads 1,024 bytes every five seconds. Returns its status after the disconnect.
async fn drip(server: &Instance) -> u16 {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(8 * 1024).unwrap();
    let mut stream = socket.connect(server.address).await.unwrap();
    let key = &server.client_key;
    let head = format!("GET /xrpc/{QUERY} HTTP/1.1\r\nhost: x\r\nx-client-key: {key}\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut start = [0; 12];
    stream.read_exact(&mut start).await.unwrap();
    let status: u16 = std::str::from_utf8(&start[9..]).unwrap().parse().unwrap();
    let mut bytes = [0; 1024];
    while status == 200 && matches!(stream.read(&mut bytes).await, Ok(count) if count > 0) {
        tokio::time::sleep(Duration::from_secs(5)).await;
        // A failed write shows that the server has closed the connection, even if the kernel still has buffered data.
        if stream.write_all(b" ").await.is_err() {
            break;
        }
    }
    status
}

/// Requests large responses over HTTP/2 with a closed window, and sends other requests to appear alive.
async fn closed_window(server: &Instance) {
    let stream = TcpStream::connect(server.address).await.unwrap();
    let (mut sender, connection) = hyper::client::conn::http2::Builder::new(TokioExecutor::new())
        .initial_stream_window_size(0)
        .handshake(TokioIo::new(stream))
        .await
        .unwrap();
    let connection = tokio::spawn(async move { drop(connection.await) });
    let uri = |path: &str| format!("http://{}{path}", server.address);
    let mut answers = Vec::new();
    for _ in 0..14 {
        let request = Request::get(uri(&format!("/xrpc/{QUERY}"))).header("x-client-key", &server.client_key);
        let request = request.body(Full::<Bytes>::default()).unwrap();
        answers.push(sender.send_request(request).await.unwrap());
    }
    while !connection.is_finished() {
        let request = Request::head(uri("/health")).body(Full::default()).unwrap();
        if sender.send_request(request).await.is_err() {
            break;
        }
        tokio::time::sleep(Duration::from_secs(10)).await;
    }
    connection.await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_readers_are_bounded_and_disconnected() {
    let (url, _directory) = sqlite_url();
    let metrics = free_address();
    let listens = metrics.to_string();
    let server = Instance::start_with(&url, "none", &[("METRICS_ADDR", listens.as_str())]).await;
    server.upload(query_lexicon(QUERY), None).await;
    server.bind(QUERY, "function handle() return { text = ('x'):rep(3 << 20) } end").await;
    let held = async || {
        let (_, _, text) = http_client::send(metrics, Method::GET, "/metrics", &[], None).await.unwrap();
        let text = String::from_utf8_lossy(&text).into_owned();
        let line = text.lines().find(|line| line.starts_with(r#"belvedere_fair_share_used{pool="answers"}"#));
        let value =
            line.and_then(|line| line.rsplit(' ').next()).unwrap_or_else(|| panic!("no gauge in\n{text}"));
        value.parse::<f64>().unwrap()
    };

    let slow = async {
        let readers = futures_util::future::join_all((0..16).map(|_| drip(&server)));
        tokio::join!(readers, closed_window(&server)).0
    };
    let others = async {
        loop {
            let answer = server.request(Method::GET, "/health", &[], None).await;
            assert_eq!(answer.status, StatusCode::OK);
            assert!(held().await <= SHARE);
            tokio::time::sleep(Duration::from_millis(250)).await;
        }
    };
    let statuses = tokio::select! {
        statuses = tokio::time::timeout(GIVEN_UP_WITHIN, slow) => statuses.expect("all are disconnected"),
        () = others => unreachable!(),
    };
    assert!(
        statuses.contains(&200) && statuses.iter().all(|status| [200, 503].contains(status)),
        "{statuses:?}"
    );
    server.eventually("all response memory is released", async |_| held().await == 0.0).await;
    let answer = server.xrpc(QUERY).await;
    assert_eq!((answer.status, answer.text.len()), (StatusCode::OK, (3 << 20) + "{\"text\":\"\"}".len()));
}
