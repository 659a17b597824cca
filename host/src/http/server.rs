//! The accept loop, and the life of a connection: HTTP/1.1 or HTTP/2 without TLS.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::dispatch::Http;
use super::limits;
use super::watch::{Counted, Counters, Watch};

/// Opens the port. From then on the kernel takes connections, so a client that comes while the server still
/// starts waits instead of being refused.
///
/// # Errors
/// When the address is taken, forbidden or not this machine's.
pub fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // A restart must not wait for the old connections' TIME_WAIT.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(limits::BACKLOG)
}

/// Serves until `drain` is cancelled, then finishes what is in flight; `stop` ends that at once.
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
            // Children, so that polling them takes no lock that all connections share.
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
        // Our own watch takes the place of hyper's timer, which is set and cleared for each request.
        .header_read_timeout(None)
        .max_buf_size(limits::HEADER_BUFFER)
        .max_headers(limits::MAX_HEADERS);
    builder
        .http2()
        .max_concurrent_streams(limits::H2_STREAMS)
        .max_header_list_size(limits::HEADER_BUFFER as u32);
    builder
}

async fn accept(
    listener: &TcpListener,
    slots: &Arc<Semaphore>,
) -> Option<(TcpStream, SocketAddr, OwnedSemaphorePermit)> {
    // Only fails when the semaphore is closed, which nobody does.
    let slot = Arc::clone(slots).acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok((stream, peer)) => Some((stream, peer, slot)),
        Err(error) if is_of_the_client(&error) => None,
        Err(error) => {
            tracing::error!(%error, "can't accept connections; is the limit of open files too low?");
            tokio::time::sleep(limits::ACCEPT_PAUSE).await;
            None
        }
    }
}

/// The client went away between its SYN and our accept: its business.
fn is_of_the_client(error: &io::Error) -> bool {
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
    // Answers are written in one piece; waiting for more only adds latency. Fails on a socket that is gone.
    let _ = stream.set_nodelay(true);
    let counters = Arc::new(Counters::default());
    let service = service_fn({
        let counters = Arc::clone(&counters);
        move |request: http::Request<Incoming>| {
            let http = Arc::clone(&http);
            let in_flight = counters.begin(request.version() == http::Version::HTTP_2);
            async move {
                let response = http.answer(peer, request).await;
                drop(in_flight);
                Ok::<_, Infallible>(response)
            }
        }
    });
    let io = TokioIo::new(Counted::new(stream, Arc::clone(&counters)));
    let connection = builder.serve_connection(io, service);
    tokio::pin!(connection);

    let drained = drain.cancelled();
    let stopped = stop.cancelled();
    tokio::pin!(drained, stopped);
    let mut draining = false;
    let mut watch = Watch::default();
    let mut ticks = tokio::time::interval_at(tokio::time::Instant::now() + limits::TICK, limits::TICK);
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
                if let Some(why) = watch.tick(&counters) {
                    tracing::debug!(?why, %peer, "gave up a connection");
                    metrics::counter!("belvedere_http_connections_given_up_total").increment(1);
                    break;
                }
            }
        }
    }
}
