//! Accepts connections and serves them until they end: HTTP/1.1 or HTTP/2, without TLS.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
#[cfg(target_os = "linux")]
use socket2::SockRef;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::dispatch::Http;
use super::limits;
use super::monitor::{CloseReason, Counters, CountingStream, Monitor};

/// Opens the port. From then on the kernel queues connections, so that clients wait while the server starts instead of
/// being refused.
///
/// # Errors
/// When the address is taken, forbidden or not this machine's.
pub fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // A restart must not wait for connections in TIME_WAIT.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    let listener = socket.listen(limits::BACKLOG)?;
    // Accepted connections inherit it.
    #[cfg(target_os = "linux")]
    SockRef::from(&listener).set_tcp_notsent_lowat(limits::UNSENT_BYTES)?;
    Ok(listener)
}

/// Serves until `drain` is cancelled, then finishes the requests in flight. Cancelling `stop` ends those at once.
pub async fn serve(
    listener: TcpListener,
    http: Arc<Http>,
    drain: CancellationToken,
    stop: CancellationToken,
) {
    let connections = TaskTracker::new();
    let slots = Arc::new(Semaphore::new(limits::MAX_CONNECTIONS));
    let builder = Arc::new(builder());
    loop {
        let accepted = tokio::select! {
            biased;
            () = drain.cancelled() => break,
            () = stop.cancelled() => break,
            accepted = accept(&listener, &slots) => accepted,
        };
        let Some((stream, peer, slot)) = accepted else { continue };
        let connection = connection(
            stream,
            peer,
            Arc::clone(&builder),
            Arc::clone(&http),
            // Child tokens, so that polling them takes no lock that all connections share.
            drain.child_token(),
            stop.child_token(),
        );
        connections.spawn(async move {
            connection.await;
            drop(slot);
        });
    }
    drop(listener);
    connections.close();
    tokio::select! {
        biased;
        () = connections.wait() => {}
        () = stop.cancelled() => {
            tracing::warn!(connections = connections.len(), "stopping with connections open");
        }
    }
}

fn builder() -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        // `Monitor` replaces hyper's timer, which would be set and cancelled for each request.
        .header_read_timeout(None)
        .max_buf_size(limits::HEADER_BUFFER)
        .max_headers(limits::MAX_HEADERS);
    builder
        .http2()
        .max_concurrent_streams(limits::H2_STREAMS)
        .max_send_buf_size(limits::H2_SEND_BUFFER)
        .max_header_list_size(limits::HEADER_BUFFER as u32);
    builder
}

async fn accept(
    listener: &TcpListener,
    slots: &Arc<Semaphore>,
) -> Option<(TcpStream, SocketAddr, OwnedSemaphorePermit)> {
    // Fails only when the semaphore is closed, which never happens.
    let slot = Arc::clone(slots).acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok((stream, peer)) => Some((stream, peer, slot)),
        Err(error) if is_client_abort(&error) => None,
        Err(error) => {
            tracing::error!(%error, "can't accept connections; is the limit of open files too low?");
            tokio::time::sleep(limits::ACCEPT_PAUSE).await;
            None
        }
    }
}

/// Whether the client closed the connection before it was accepted, which is not an error of the server.
fn is_client_abort(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionRefused
    )
}

async fn connection(
    stream: TcpStream,
    peer: SocketAddr,
    builder: Arc<auto::Builder<TokioExecutor>>,
    http: Arc<Http>,
    drain: CancellationToken,
    stop: CancellationToken,
) {
    // Responses are written in one piece, so Nagle's algorithm only adds latency. Fails on a closed socket.
    let _ = stream.set_nodelay(true);
    let counters = Arc::new(Counters::default());
    let service = service_fn({
        let (http, counters) = (Arc::clone(&http), Arc::clone(&counters));
        move |request: http::Request<Incoming>| {
            let http = Arc::clone(&http);
            let counters = Arc::clone(&counters);
            async move {
                counters.until_writable().await;
                let in_flight = counters.begin(request.version() == http::Version::HTTP_2);
                let response = http.answer(peer, &counters, request).await;
                Ok::<_, Infallible>(response.map(|body| body.answered(in_flight)))
            }
        }
    });
    let io = TokioIo::new(CountingStream::new(stream, Arc::clone(&counters)));
    // A WebSocket continues in a task of its own, and this connection ends then.
    let connection = builder.serve_connection_with_upgrades(io, service);
    tokio::pin!(connection);

    let drained = drain.cancelled();
    let stopped = stop.cancelled();
    tokio::pin!(drained, stopped);
    let mut draining = false;
    let mut monitor = Monitor::default();
    let tick = http.tick();
    let mut ticks = tokio::time::interval_at(tokio::time::Instant::now() + tick, tick);
    loop {
        tokio::select! {
            biased;
            ended = connection.as_mut() => {
                if let Err(error) = ended {
                    tracing::debug!(%error, %peer, "a connection ended with an error");
                }
                break;
            }
            () = &mut drained, if !draining => {
                draining = true;
                connection.as_mut().graceful_shutdown();
            }
            () = &mut stopped => break,
            _ = ticks.tick() => {
                let reason = monitor.tick(&counters);
                if reason == Some(CloseReason::ClosedWindow) && !draining {
                    // A proxy may be sending another client's request on it: GOAWAY announces the end first.
                    draining = true;
                    connection.as_mut().graceful_shutdown();
                } else if let Some(reason) = reason {
                    tracing::debug!(?reason, %peer, "closed a stalled connection");
                    metrics::counter!("belvedere_http_connections_given_up_total").increment(1);
                    break;
                }
            }
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    use bytes::Bytes;
    use http::{Method, Request, StatusCode};
    use http_body_util::{BodyExt, Full};
    use hyper::client::conn::http1::SendRequest;

    use super::*;
    use crate::http::router::{Endpoint, Handler, Router};
    use crate::http::{Cors, Error, response};
    use belvedere_base::random::Random;

    pub(in super::super) struct Running {
        pub(in super::super) address: SocketAddr,
        pub(in super::super) http: Arc<Http>,
        drain: CancellationToken,
        stop: CancellationToken,
        server: tokio::task::JoinHandle<()>,
    }

    fn start(routes: Vec<(Method, &'static str, Handler)>) -> Running {
        start_with_tick(routes, limits::TICK)
    }

    pub(in super::super) fn start_with_tick(
        routes: Vec<(Method, &'static str, Handler)>,
        tick: Duration,
    ) -> Running {
        let mut table = Router::default();
        for (method, path, handler) in routes {
            table.add(Endpoint::new(method, path, handler)).unwrap();
        }
        let http = Http::new(table, Cors::new(|_| false), &Random::system(), TaskTracker::new());
        // Simulates a proxy's header.
        let http = http.with_client_address(|peer, headers| {
            headers.get("x-client").and_then(|value| value.to_str().ok()?.parse().ok()).unwrap_or(peer)
        });
        let http = Arc::new(http.with_tick(tick));
        let listener = bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = listener.local_addr().unwrap();
        let (drain, stop) = (CancellationToken::new(), CancellationToken::new());
        let server = tokio::spawn(serve(listener, Arc::clone(&http), drain.clone(), stop.clone()));
        Running { address, http, drain, stop, server }
    }

    async fn connect(address: SocketAddr) -> SendRequest<Full<Bytes>> {
        let stream = TcpStream::connect(address).await.unwrap();
        let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        sender
    }

    async fn send(
        sender: &mut SendRequest<Full<Bytes>>,
        method: Method,
        path: &str,
    ) -> (StatusCode, serde_json::Value) {
        let request = Request::builder().method(method).uri(path).header("host", "test");
        let request = request.body(Full::default()).unwrap();
        let response = sender.send_request(request).await.unwrap();
        let (head, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        (head.status, serde_json::from_slice(&body).unwrap_or_default())
    }

    #[tokio::test]
    async fn a_panic_is_a_500_and_the_connection_stays_open() {
        let running = start(vec![
            (Method::GET, "/panic", Box::new(|_, _| Box::pin(async { panic!("secret detail") }))),
            (Method::POST, "/panic", Box::new(|_, _| Box::pin(async { panic!("secret detail") }))),
            (
                Method::GET,
                "/fails",
                Box::new(|_, _| Box::pin(async { Err(Error::internal("secret detail")) })),
            ),
            (Method::GET, "/ok", Box::new(|_, _| Box::pin(async { Ok(response::empty(StatusCode::OK)) }))),
        ]);
        let mut sender = connect(running.address).await;
        for (method, path) in [(Method::GET, "/panic"), (Method::POST, "/panic"), (Method::GET, "/fails")] {
            let (status, body) = send(&mut sender, method, path).await;
            assert_eq!(status, StatusCode::INTERNAL_SERVER_ERROR);
            assert_eq!(body["error"], "internal server error");
            assert_eq!(body["correlationId"].as_str().unwrap().len(), 16);
            assert!(!body.to_string().contains("secret"));
        }
        assert_eq!(send(&mut sender, Method::GET, "/ok").await.0, StatusCode::OK);
    }

    #[tokio::test]
    async fn after_a_disconnect_a_post_is_completed_and_a_get_is_cancelled() {
        static CHANGED: AtomicBool = AtomicBool::new(false);
        static LOOKED: AtomicBool = AtomicBool::new(false);
        fn slow(done: &'static AtomicBool) -> Handler {
            Box::new(move |_, _| {
                Box::pin(async move {
                    tokio::time::sleep(Duration::from_millis(200)).await;
                    done.store(true, Ordering::Relaxed);
                    Ok(response::empty(StatusCode::OK))
                })
            })
        }
        let running = start(vec![(Method::POST, "/x", slow(&CHANGED)), (Method::GET, "/x", slow(&LOOKED))]);
        for method in ["POST", "GET"] {
            let stream = TcpStream::connect(running.address).await.unwrap();
            let head = format!("{method} /x HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n");
            stream.writable().await.unwrap();
            assert_eq!(stream.try_write(head.as_bytes()).unwrap(), head.len());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        tokio::time::sleep(Duration::from_millis(600)).await;
        assert!(CHANGED.load(Ordering::Relaxed));
        assert!(!LOOKED.load(Ordering::Relaxed));
    }

    #[tokio::test]
    async fn draining_closes_idle_connections_and_waits_for_busy_ones() {
        let wait: Handler = Box::new(|_, _| {
            Box::pin(async {
                tokio::time::sleep(Duration::from_millis(300)).await;
                Ok(response::empty(StatusCode::OK))
            })
        });
        let running = start(vec![(Method::GET, "/wait", wait)]);
        let mut idle = connect(running.address).await;
        assert_eq!(send(&mut idle, Method::GET, "/wait").await.0, StatusCode::OK);
        let mut busy = connect(running.address).await;
        let answer = tokio::spawn(async move { send(&mut busy, Method::GET, "/wait").await.0 });
        tokio::time::sleep(Duration::from_millis(50)).await;
        running.drain.cancel();
        assert_eq!(answer.await.unwrap(), StatusCode::OK);
        tokio::time::timeout(Duration::from_secs(5), running.server).await.unwrap().unwrap();
        assert!(idle.is_closed());
        assert!(TcpStream::connect(running.address).await.is_err());
    }

    #[tokio::test]
    async fn stopping_does_not_wait_for_requests() {
        let forever: Handler = Box::new(|_, _| Box::pin(std::future::pending()));
        let running = start(vec![(Method::GET, "/forever", forever)]);
        let mut busy = connect(running.address).await;
        tokio::spawn(async move {
            let request =
                Request::get("/forever").header("host", "test").body(Full::<Bytes>::default()).unwrap();
            let _ = busy.send_request(request).await;
        });
        tokio::time::sleep(Duration::from_millis(50)).await;
        running.drain.cancel();
        running.stop.cancel();
        tokio::time::timeout(Duration::from_secs(5), running.server).await.unwrap().unwrap();
    }
}
