//! Clients that read slowly or not at all, over real connections.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use http::header::RETRY_AFTER;
use http::{HeaderValue, Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinHandle;

use super::super::router::Handler;
use super::super::server::tests::{Running, start_with_tick};
use super::super::{EventStream, limits, response};

const MIB: usize = 1024 * 1024;

/// Time limit of [`eventually`]; what it waits for usually happens within milliseconds, on a busy machine within
/// seconds.
const EVENTUALLY_TIMEOUT: Duration = Duration::from_secs(30);

/// A stalled connection is closed after eight ticks at most.
const TICK: Duration = Duration::from_millis(100);

fn bytes_of(length: usize) -> Handler {
    let body = Bytes::from(vec![b'x'; length]);
    Box::new(move |_, _| {
        // Each response has memory of its own, as with real handlers.
        let body = Bytes::from(body.to_vec());
        Box::pin(async { Ok(response::text(StatusCode::OK, body)) })
    })
}

async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let waited = tokio::time::timeout(EVENTUALLY_TIMEOUT, async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    waited.await.unwrap_or_else(|_| panic!("never happened: {what}"));
}

/// An HTTP/1.1 client that reads only the head of its response.
async fn head_only(running: &Running, from: &str, method: &str, path: &str) -> (TcpStream, String) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(format!("{from}:0").parse().unwrap()).unwrap();
    // A small receive buffer, so that the kernel reads little on the client's behalf.
    socket.set_recv_buffer_size(8 * 1024).unwrap();
    let mut stream = socket.connect(running.address).await.unwrap();
    let request = format!("{method} {path} HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    (stream, String::from_utf8(head).unwrap())
}

/// An HTTP/2 client whose streams have a window of `window` bytes, and the task of its connection.
async fn http2_client(running: &Running, window: u32) -> (SendRequest<Full<Bytes>>, JoinHandle<()>) {
    let stream = TcpStream::connect(running.address).await.unwrap();
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder.initial_stream_window_size(window).initial_connection_window_size(1 << 30);
    let (sender, connection) = builder.handshake(TokioIo::new(stream)).await.unwrap();
    let connection = tokio::spawn(async move {
        // Errors are expected: the server closes the connection.
        let _ = connection.await;
    });
    (sender, connection)
}

fn get(path: &str) -> Request<Full<Bytes>> {
    Request::get(format!("http://test{path}")).body(Full::default()).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_readers_take_no_more_than_their_address_s_share() {
    static CHANGES: AtomicUsize = AtomicUsize::new(0);
    let change: Handler = Box::new(|_, _| {
        CHANGES.fetch_add(1, Relaxed);
        Box::pin(async { Ok(response::empty(StatusCode::NO_CONTENT)) })
    });
    let routes = vec![
        (Method::GET, "/large", bytes_of(4 * MIB)),
        (Method::GET, "/small", bytes_of(1024)),
        (Method::POST, "/change", change),
    ];
    let running = start_with_tick(routes, limits::TICK);
    let slow = (0..16).map(|_| head_only(&running, "127.0.0.1", "GET", "/large"));
    let slow = futures_util::future::join_all(slow).await;
    let (served, refused): (Vec<_>, Vec<_>) =
        slow.into_iter().partition(|(_, head)| head.starts_with("HTTP/1.1 200"));
    assert_eq!((served.len(), refused.len()), (8, 8));
    for (_, head) in &refused {
        assert!(head.starts_with("HTTP/1.1 503") && head.contains("retry-after: 1"), "{head}");
    }
    assert_eq!(running.http.reserved_units(), limits::response_memory(limits::RESPONSE_MEMORY).per_tenant);

    // A change is refused before it runs; small responses and other addresses are served.
    let (_, head) = head_only(&running, "127.0.0.1", "POST", "/change").await;
    assert!(head.starts_with("HTTP/1.1 503") && CHANGES.load(Relaxed) == 0, "{head}");
    let (_, head) = head_only(&running, "127.0.0.1", "GET", "/small").await;
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    let (_other, head) = head_only(&running, "127.0.0.2", "GET", "/large").await;
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    let (_, head) = head_only(&running, "127.0.0.2", "POST", "/change").await;
    assert!(head.starts_with("HTTP/1.1 204") && CHANGES.load(Relaxed) == 1, "{head}");

    // Behind a proxy the client's address counts, not the proxy's.
    let path = "/large HTTP/1.1\r\nx-client: 192.0.2.7\r\nx-rest:";
    let (_behind, head) = head_only(&running, "127.0.0.1", "GET", path).await;
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");

    // After a client has read its response, the next one is served.
    let mut served = served.into_iter().map(|(stream, _)| stream);
    let mut reader = served.next().unwrap();
    reader.read_exact(&mut vec![0; 4 * MIB]).await.unwrap();
    let (_next, head) = head_only(&running, "127.0.0.1", "GET", "/large").await;
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_reads_nothing_is_closed() {
    let running = start_with_tick(vec![(Method::GET, "/large", bytes_of(4 * MIB))], TICK);
    let (mut stream, head) = head_only(&running, "127.0.0.1", "GET", "/large").await;
    assert!(head.starts_with("HTTP/1.1 200") && running.http.reserved_units() > 0, "{head}");
    eventually("its reservation is released", || running.http.reserved_units() == 0).await;
    let mut rest = Vec::new();
    // The socket was closed with the answer unfinished.
    let _ = stream.read_to_end(&mut rest).await;
    assert!(rest.len() < 4 * MIB, "{}", rest.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_closed_window_releases_its_responses_after_the_stall_time() {
    let routes = vec![(Method::GET, "/large", bytes_of(MIB)), (Method::GET, "/small", bytes_of(100))];
    let running = start_with_tick(routes, TICK);
    let (mut sender, connection) = http2_client(&running, 0).await;
    let mut answers = Vec::new();
    for _ in 0..14 {
        answers.push(sender.send_request(get("/large")).await.unwrap());
        answers.push(sender.send_request(get("/small")).await.unwrap());
    }
    assert!(answers.iter().all(|answer| answer.status() == StatusCode::OK));
    assert!(running.http.reserved_units() >= 13 * MIB / limits::RESPONSE_PIECE);
    // HEAD requests, whose responses need no window, keep the connection active.
    let alive = tokio::spawn(async move {
        loop {
            let request = Request::head("http://test/small").body(Full::default()).unwrap();
            if sender.send_request(request).await.is_err() {
                return;
            }
            tokio::time::sleep(TICK / 3).await;
        }
    });
    eventually("the reservations are released", || running.http.reserved_units() == 0).await;
    eventually("the connection ends", || connection.is_finished()).await;
    alive.await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_window_of_one_byte_is_treated_as_closed() {
    let running = start_with_tick(vec![(Method::GET, "/large", bytes_of(MIB))], TICK);
    let (mut sender, connection) = http2_client(&running, 1).await;
    let mut answers = Vec::new();
    for _ in 0..8 {
        answers.push(sender.send_request(get("/large")).await.unwrap());
    }
    eventually("the connection ends", || connection.is_finished()).await;
    eventually("the reservations are released", || running.http.reserved_units() == 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stalled_response_does_not_close_its_connection() {
    let running = start_with_tick(vec![(Method::GET, "/large", bytes_of(MIB))], 2 * TICK);
    let (mut sender, connection) = http2_client(&running, 64 * 1024).await;
    // This response is not read; the proxy's other clients use the same connection.
    let stalled = sender.send_request(get("/large")).await.unwrap();
    let is_reserved = || running.http.reserved_units() >= MIB / limits::RESPONSE_PIECE;
    assert!(is_reserved());
    let others = async {
        while is_reserved() {
            let answer = sender.send_request(get("/large")).await.unwrap();
            assert_eq!(answer.into_body().collect().await.unwrap().to_bytes().len(), MIB);
        }
    };
    let released = tokio::time::timeout(EVENTUALLY_TIMEOUT, others).await;
    released.expect("the stalled response stays reserved");
    assert!(stalled.into_body().collect().await.is_err(), "the rest of it is gone");
    let answer = sender.send_request(get("/large")).await.unwrap();
    assert_eq!(answer.into_body().collect().await.unwrap().to_bytes().len(), MIB);
    assert!(!connection.is_finished());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_with_many_streams_is_bounded() {
    let running = start_with_tick(vec![(Method::GET, "/large", bytes_of(MIB))], limits::TICK);
    let (sender, _connection) = http2_client(&running, 0).await;
    let requests = (0..100).map(|_| {
        let mut sender = sender.clone();
        async move { sender.send_request(get("/large")).await.unwrap() }
    });
    let answers = futures_util::future::join_all(requests).await;
    let served = answers.iter().filter(|answer| answer.status() == StatusCode::OK).count();
    let max = limits::MAX_UNREAD_PER_CONNECTION / MIB;
    assert!((1..=max).contains(&served), "{served}");
    for refused in answers.iter().filter(|answer| answer.status() != StatusCode::OK) {
        assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(refused.headers()[RETRY_AFTER], "1");
    }
    // The refusals are responses too, and take a unit each.
    let reserved = running.http.reserved_units() * limits::RESPONSE_PIECE;
    let refusals = (answers.len() - served) * limits::RESPONSE_PIECE;
    assert!(reserved <= limits::MAX_UNREAD_PER_CONNECTION + refusals, "{reserved}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reading_clients_get_every_byte() {
    let routes = vec![
        (Method::GET, "/large", bytes_of(8 * MIB + 5)),
        (Method::GET, "/piece", bytes_of(limits::RESPONSE_PIECE)),
        (Method::GET, "/none", bytes_of(0)),
    ];
    let running = start_with_tick(routes, limits::TICK);
    let (mut h2, _connection) = http2_client(&running, 64 * 1024).await;
    for (path, length) in [("/large", 8 * MIB + 5), ("/piece", limits::RESPONSE_PIECE), ("/none", 0)] {
        let answer = h2.send_request(get(path)).await.unwrap();
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        assert!(body.len() == length && body.iter().all(|byte| *byte == b'x'), "{path}: {}", body.len());
        let (mut stream, _) = head_only(&running, "127.0.0.1", "GET", path).await;
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await.unwrap();
        assert!(body.iter().all(|byte| *byte == b'x'), "{path}");
    }
    eventually("all reservations are released", || running.http.reserved_units() == 0).await;
}

/// Streams that send `piece` again and again, and count how often.
fn endless(piece: &'static [u8], sent: &'static AtomicUsize) -> Handler {
    Box::new(move |_, _| {
        let messages = stream::repeat_with(move || {
            sent.fetch_add(1, Relaxed);
            Bytes::from_static(piece)
        });
        Box::pin(async { Ok(response::events(EventStream::new(messages))) })
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_stream_is_asked_only_for_what_its_reader_takes() {
    static SENT: AtomicUsize = AtomicUsize::new(0);
    static H2_SENT: AtomicUsize = AtomicUsize::new(0);
    const PIECE: &[u8] = &[b'x'; 1024];
    let routes =
        vec![(Method::GET, "/events", endless(PIECE, &SENT)), (Method::GET, "/h2", endless(PIECE, &H2_SENT))];
    let running = start_with_tick(routes, TICK);
    let (mut stream, head) = head_only(&running, "127.0.0.1", "GET", "/events").await;
    assert!(head.contains("content-type: text/event-stream") && !head.contains("content-length"), "{head}");
    assert_eq!(running.http.reserved_units(), limits::EVENT_STREAM_BYTES / limits::RESPONSE_PIECE);
    // The client reads nothing: the buffers fill up, the source is left alone, and the connection is closed.
    eventually("its reservation is released", || running.http.reserved_units() == 0).await;
    let sent = SENT.load(Relaxed) * PIECE.len();
    assert!(sent < 8 * MIB, "{sent} bytes were taken from the source");
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest).await;
    assert!(rest.len() <= 2 * sent, "{}", rest.len());

    // A closed window on HTTP/2: hyper keeps one message ready, and takes no other.
    let (mut sender, connection) = http2_client(&running, 0).await;
    let answer = sender.send_request(get("/h2")).await.unwrap();
    assert!(answer.status() == StatusCode::OK && H2_SENT.load(Relaxed) <= 1, "{}", H2_SENT.load(Relaxed));
    // The response is dropped, and as it is the only one, the connection ends.
    eventually("its reservation is released", || running.http.reserved_units() == 0).await;
    drop(answer);
    eventually("the connection ends", || connection.is_finished()).await;
}

/// Increases a number when it is dropped, as a permit that a download holds is released.
struct Held(&'static AtomicUsize);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.fetch_add(1, Relaxed);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_download_that_is_not_read_ends_and_one_with_a_slow_source_goes_on() {
    static RELEASED: AtomicUsize = AtomicUsize::new(0);
    const CHUNK: usize = 100_000;
    let endless: Handler = Box::new(|_, _| {
        let held = Held(&RELEASED);
        let chunks = stream::repeat_with(move || {
            let _held = &held;
            Ok(Bytes::from(vec![b'x'; CHUNK]))
        });
        Box::pin(async { Ok(response::download(HeaderValue::from_static("a/b"), chunks)) })
    });
    let slow: Handler = Box::new(|_, _| {
        let chunks = stream::unfold(0, |sent| async move {
            // Longer than a stalled response may take.
            tokio::time::sleep(TICK * (limits::STALL_TICKS + 3)).await;
            (sent < 3).then(|| (Ok(Bytes::from_static(b"chunk")), sent + 1))
        });
        Box::pin(async { Ok(response::download(HeaderValue::from_static("a/b"), chunks)) })
    });
    let routes = vec![(Method::GET, "/endless", endless), (Method::GET, "/slow", slow)];
    let running = start_with_tick(routes, TICK);
    for window in [0, 1] {
        let before = RELEASED.load(Relaxed);
        let (mut sender, connection) = http2_client(&running, window).await;
        let answer = sender.send_request(get("/endless")).await.unwrap();
        eventually("what the download holds is released", || RELEASED.load(Relaxed) > before).await;
        eventually("its reservation is released", || running.http.reserved_units() == 0).await;
        eventually("the connection ends", || connection.is_finished()).await;
        drop(answer);
    }
    // Another response on the connection goes on.
    let (mut sender, _connection) = http2_client(&running, 64 * 1024).await;
    let stalled = sender.send_request(get("/endless")).await.unwrap();
    let slow = sender.send_request(get("/slow")).await.unwrap();
    assert_eq!(slow.into_body().collect().await.unwrap().to_bytes(), "chunkchunkchunk");
    assert!(stalled.into_body().collect().await.is_err(), "the rest of it is gone");
    let (mut stream, _) = head_only(&running, "127.0.0.1", "GET", "/slow").await;
    let mut rest = vec![0; 20];
    stream.read_exact(&mut rest).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_quiet_event_stream_stays_open_until_its_client_leaves() {
    let quiet: Handler = Box::new(|_, _| {
        let messages = stream::pending();
        Box::pin(async { Ok(response::events(EventStream::new(messages))) })
    });
    let running = start_with_tick(vec![(Method::GET, "/events", quiet)], Duration::from_millis(10));
    let (mut stream, head) = head_only(&running, "127.0.0.1", "GET", "/events").await;
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    // An idle connection would be closed within this time.
    let idle = Duration::from_millis(10) * (limits::IDLE_TICKS + 5);
    let read = tokio::time::timeout(idle, stream.read_u8()).await;
    assert!(read.is_err(), "{read:?}");
    assert!(running.http.reserved_units() > 0);
    drop(stream);
    eventually("its reservation is released", || running.http.reserved_units() == 0).await;
}
