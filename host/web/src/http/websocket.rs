//! The server's side of a WebSocket (RFC 6455): the upgrade of a request, and a connection on which only the server sends
//! messages.

use std::pin::pin;
use std::time::Duration;

use bytes::Bytes;
use data_encoding::BASE64;
use futures_util::{SinkExt as _, StreamExt as _};
use http::header::{
    CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION,
    UPGRADE,
};
use http::{HeaderValue, StatusCode};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig, frame::coding::CloseCode};
use tokio_tungstenite::tungstenite::{self, Message, Utf8Bytes};

use super::{Body, Error, Request, Response};
use crate::websocket::bounded_writes;

/// Time between two pings, so that proxies keep a quiet connection open and a client that is gone is noticed.
const PING_EVERY: Duration = Duration::from_secs(30);

/// Time in which a client must take a message. One that reads slower than that is disconnected.
const SEND_TIMEOUT: Duration = Duration::from_secs(30);

/// Limit for the end of the upgrade: the response has been written by then.
const UPGRADE_TIMEOUT: Duration = Duration::from_secs(10);

/// Bytes of a message of the client, which has nothing to say. Each connection has a buffer of this size.
const MAX_RECEIVED: usize = 4 << 10;

/// Bytes of the largest message that is sent, with its header: a record has up to a mebibyte.
const MAX_SENT: usize = 2 << 20;

/// Pings and pongs that a client may send between two pings to it.
const MAX_FRAMES: u32 = 100;

/// Time in which a client must answer the end of the connection.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// The client is gone, or does not read.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
#[error("the client is gone")]
pub struct Gone;

/// A connection after its response was written.
#[derive(Debug)]
pub struct Upgrade(OnUpgrade);

/// A message for clients, with its bytes shared by all copies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame(Message);

impl Frame {
    pub fn binary(bytes: impl Into<Bytes>) -> Self {
        Self(Message::Binary(bytes.into()))
    }

    pub fn text(text: impl Into<Utf8Bytes>) -> Self {
        Self(Message::Text(text.into()))
    }

    /// The bytes of its content.
    pub fn size(&self) -> usize {
        self.0.len()
    }
}

/// The reason that a client is given for the end of its connection (RFC 6455, section 7.4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closing {
    pub code: u16,
    /// At most 123 bytes.
    pub reason: &'static str,
}

impl Closing {
    /// The server has sent everything.
    pub fn normal(reason: &'static str) -> Self {
        Self { code: CloseCode::Normal.into(), reason }
    }

    /// The server shuts down: the client connects again.
    pub fn away(reason: &'static str) -> Self {
        Self { code: CloseCode::Away.into(), reason }
    }

    /// The client has to change something before it connects again.
    pub fn policy(reason: &'static str) -> Self {
        Self { code: CloseCode::Policy.into(), reason }
    }

    /// The server has failed.
    pub fn error(reason: &'static str) -> Self {
        Self { code: CloseCode::Error.into(), reason }
    }
}

/// The subprotocols that a client offers, in its order of preference.
pub fn offered_protocols(request: &Request) -> impl Iterator<Item = &str> {
    let headers = request.headers().get_all(SEC_WEBSOCKET_PROTOCOL).into_iter();
    headers.filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(',')).map(str::trim)
}

/// Tells the client which of its subprotocols is used.
pub fn choose_protocol(response: &mut Response, token: &'static str) {
    response.headers_mut().insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(token));
}

/// Whether a request asks for a WebSocket.
pub fn is_upgrade(request: &Request) -> bool {
    request.header("upgrade").is_some_and(|value| value.eq_ignore_ascii_case("websocket"))
}

/// Reads the handshake of a request. The response belongs to the returned upgrade.
///
/// # Errors
/// 426 when the request is none for a WebSocket, 400 when its handshake is malformed.
pub fn accept(request: &mut Request) -> Result<(Response, Upgrade), Error> {
    let is_upgrade = is_upgrade(request);
    let Some(upgrade) = request.head.extensions.remove::<OnUpgrade>().filter(|_| is_upgrade) else {
        let error = Error::new(StatusCode::UPGRADE_REQUIRED, "connect with a WebSocket, over HTTP/1.1");
        return Err(error.with_header(UPGRADE, HeaderValue::from_static("websocket")));
    };
    if request.header(SEC_WEBSOCKET_VERSION.as_str()) != Some("13") {
        return Err(Error::bad_request("sec-websocket-version must be 13"));
    }
    let key = request.headers().get(SEC_WEBSOCKET_KEY);
    let key = key.filter(|key| BASE64.decode(key.as_bytes()).is_ok_and(|nonce| nonce.len() == 16));
    let key = key.ok_or_else(|| Error::bad_request("sec-websocket-key must be 16 bytes in base64"))?;
    let accept = HeaderValue::from_str(&derive_accept_key(key.as_bytes())).map_err(Error::internal)?;
    let mut response = Response::new(Body::default());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(SEC_WEBSOCKET_ACCEPT, accept);
    Ok((response, Upgrade(upgrade)))
}

impl Upgrade {
    /// Waits until the response has been written.
    ///
    /// # Errors
    /// [`Gone`].
    pub async fn socket(self) -> Result<Socket, Gone> {
        let upgraded = timeout(UPGRADE_TIMEOUT, self.0).await.map_err(|_| Gone)?.map_err(|_| Gone)?;
        Ok(Socket::over(TokioIo::new(upgraded)).await)
    }
}

/// An open connection.
#[derive(Debug)]
pub struct Socket<Io = TokioIo<Upgraded>> {
    stream: WebSocketStream<Io>,
    ping_at: Instant,
    /// Nothing came since the last ping.
    is_pinged: bool,
    /// The pings and pongs that came since the last ping.
    frames: u32,
}

impl<Io: AsyncRead + AsyncWrite + Unpin> Socket<Io> {
    /// The server's side of a connection whose handshake is over.
    pub async fn over(io: Io) -> Self {
        let config = bounded_writes(WebSocketConfig::default()).max_write_buffer_size(MAX_SENT);
        let config = config
            .read_buffer_size(MAX_RECEIVED)
            .max_message_size(Some(MAX_RECEIVED))
            .max_frame_size(Some(MAX_RECEIVED));
        let stream = WebSocketStream::from_raw_socket(io, Role::Server, Some(config)).await;
        Self { stream, ping_at: Instant::now() + PING_EVERY, is_pinged: false, frames: 0 }
    }

    /// Sends a binary message.
    ///
    /// # Errors
    /// [`Gone`].
    pub async fn send(&mut self, message: Vec<u8>) -> Result<(), Gone> {
        self.write(Message::Binary(Bytes::from(message))).await
    }

    /// Sends a text message.
    ///
    /// # Errors
    /// [`Gone`].
    pub async fn send_text(&mut self, message: &str) -> Result<(), Gone> {
        self.write(Message::text(message)).await
    }

    /// Sends messages together.
    ///
    /// # Errors
    /// [`Gone`].
    pub async fn send_all(&mut self, frames: impl IntoIterator<Item = Frame>) -> Result<(), Gone> {
        let sending = async {
            for Frame(message) in frames {
                self.stream.feed(message).await?;
            }
            self.stream.flush().await
        };
        let sent: Result<Result<(), tungstenite::Error>, _> = timeout(SEND_TIMEOUT, sending).await;
        sent.map_err(|_| Gone)?.map_err(|_| Gone)
    }

    /// Waits for something, while it answers pings and sends some.
    ///
    /// # Errors
    /// [`Gone`], also when the client closes the connection or sends a message.
    pub async fn wait_for<T>(&mut self, change: impl Future<Output = T>) -> Result<T, Gone> {
        let mut change = pin!(change);
        loop {
            tokio::select! {
                biased;
                received = self.stream.next() => match received {
                    // A ping is answered when the stream is polled again.
                    Some(Ok(Message::Ping(_) | Message::Pong(_))) if self.frames < MAX_FRAMES => {
                        (self.is_pinged, self.frames) = (false, self.frames + 1);
                    }
                    Some(Ok(Message::Close(_))) => {
                        self.drain().await;
                        return Err(Gone);
                    }
                    _ => return Err(Gone),
                },
                changed = &mut change => return Ok(changed),
                () = tokio::time::sleep_until(self.ping_at) => {
                    if self.is_pinged {
                        return Err(Gone);
                    }
                    (self.is_pinged, self.frames, self.ping_at) = (true, 0, Instant::now() + PING_EVERY);
                    self.write(Message::Ping(Bytes::new())).await?;
                }
            }
        }
    }

    /// Closes the connection, because the server ends or has said all.
    pub async fn close(self, reason: &'static str) {
        self.close_with(Closing::normal(reason)).await;
    }

    /// Closes the connection, and names the reason.
    pub async fn close_with(mut self, closing: Closing) {
        let frame = CloseFrame { code: closing.code.into(), reason: closing.reason.into() };
        // An error means that the connection is closed already.
        if let Ok(Ok(())) = timeout(SEND_TIMEOUT, self.stream.close(Some(frame))).await {
            self.drain().await;
        }
    }

    /// Reads until the client ends the connection, so that both sides have sent that they close it (RFC 6455, section 7.1.2).
    async fn drain(&mut self) {
        let all = async { while let Some(Ok(_)) = self.stream.next().await {} };
        let _ = timeout(CLOSE_TIMEOUT, all).await;
    }

    async fn write(&mut self, message: Message) -> Result<(), Gone> {
        let sent: Result<Result<(), tungstenite::Error>, _> =
            timeout(SEND_TIMEOUT, self.stream.send(message)).await;
        sent.map_err(|_| Gone)?.map_err(|_| Gone)
    }
}

#[cfg(test)]
mod tests {
    use http::Method;
    use proptest::prelude::*;
    use tokio::io::AsyncWriteExt as _;
    use tokio::net::TcpStream;
    use tokio_tungstenite::client_async;

    use super::*;
    use crate::http::limits;
    use crate::http::router::Handler;
    use crate::http::server::tests::{Running, start_with_tick};

    /// A server that sends a message, and another one if the client is there after a while.
    fn start() -> Running {
        let handler: Handler = Box::new(|mut request, _| {
            Box::pin(async move {
                let (response, upgrade) = accept(&mut request)?;
                tokio::spawn(async move {
                    let mut socket = upgrade.socket().await.unwrap();
                    socket.send(b"first".to_vec()).await.unwrap();
                    let pause = tokio::time::sleep(Duration::from_millis(100));
                    if socket.wait_for(pause).await.is_ok() {
                        socket.send(b"second".to_vec()).await.unwrap();
                        socket.close("that was all").await;
                    }
                });
                Ok(response)
            })
        });
        start_with_tick(vec![(Method::GET, "/socket", handler)], limits::TICK)
    }

    #[tokio::test]
    async fn messages_and_the_end_arrive() {
        let running = start();
        let stream = TcpStream::connect(running.address).await.unwrap();
        let (mut client, response) = client_async("ws://test/socket", stream).await.unwrap();
        assert_eq!(response.status(), StatusCode::SWITCHING_PROTOCOLS);
        client.send(Message::Ping(Bytes::from_static(b"there?"))).await.unwrap();
        let mut received = Vec::new();
        while let Some(Ok(message)) = client.next().await {
            received.push(message);
        }
        let texts: Vec<_> =
            received.iter().filter(|m| m.is_binary()).map(|m| m.clone().into_data()).collect();
        assert_eq!(texts, [Bytes::from_static(b"first"), Bytes::from_static(b"second")]);
        assert!(received.iter().any(Message::is_pong) && received.iter().any(Message::is_close));
    }

    #[tokio::test]
    async fn a_client_that_only_pings_is_disconnected() {
        let running = start();
        let stream = TcpStream::connect(running.address).await.unwrap();
        let (mut client, _) = client_async("ws://test/socket", stream).await.unwrap();
        for _ in 0..=MAX_FRAMES {
            client.feed(Message::Ping(Bytes::new())).await.unwrap();
        }
        client.flush().await.unwrap();
        let mut received = Vec::new();
        while let Some(Ok(message)) = client.next().await {
            received.push(message);
        }
        assert!(!received.contains(&Message::Binary(Bytes::from_static(b"second"))), "{received:?}");
    }

    /// A message that the bound of unsent bytes has no room for ends the connection, whether the client reads or not.
    #[tokio::test]
    async fn unsent_bytes_are_bounded() {
        let (results, mut sent) = tokio::sync::mpsc::unbounded_channel();
        let handler: Handler = Box::new(move |mut request, _| {
            let results = results.clone();
            Box::pin(async move {
                let (response, upgrade) = accept(&mut request)?;
                tokio::spawn(async move {
                    let mut socket = upgrade.socket().await.unwrap();
                    for size in [MAX_SENT - (4 << 10), MAX_SENT + 1] {
                        results.send(socket.send(vec![7; size]).await).unwrap();
                    }
                });
                Ok(response)
            })
        });
        let running = start_with_tick(vec![(Method::GET, "/socket", handler)], limits::TICK);
        let stream = TcpStream::connect(running.address).await.unwrap();
        let (mut client, _) = client_async("ws://test/socket", stream).await.unwrap();
        assert_eq!(client.next().await.unwrap().unwrap().into_data().len(), MAX_SENT - (4 << 10));
        assert_eq!((sent.recv().await, sent.recv().await), (Some(Ok(())), Some(Err(Gone))));
        assert!(client.next().await.is_none_or(|message| message.is_err()));
    }

    proptest! {
        /// The same as the fuzz target `websocket`.
        #[test]
        fn whatever_a_client_sends_ends_the_connection(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let (mut client, server) = tokio::io::duplex(64 << 10);
                client.write_all(&bytes).await.unwrap();
                client.shutdown().await.unwrap();
                let mut socket = Socket::over(server).await;
                assert_eq!(socket.wait_for(std::future::pending::<()>()).await, Err(Gone));
            });
        }
    }

    #[tokio::test]
    async fn a_close_is_answered() {
        let running = start();
        let stream = TcpStream::connect(running.address).await.unwrap();
        let (mut client, _) = client_async("ws://test/socket", stream).await.unwrap();
        client.close(None).await.unwrap();
        let mut last = None;
        while let Some(Ok(message)) = client.next().await {
            last = Some(message);
        }
        assert!(last.is_some_and(|message| message.is_close()));
    }

    #[tokio::test]
    async fn other_requests_are_refused() {
        use tokio::io::AsyncReadExt as _;

        let running = start();
        for (headers, status) in [
            ("", "426"),
            ("connection: upgrade\r\nupgrade: websocket\r\n", "400"),
            ("connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n", "400"),
            (
                "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: x\r\n",
                "400",
            ),
        ] {
            let mut stream = TcpStream::connect(running.address).await.unwrap();
            let head = format!("GET /socket HTTP/1.1\r\nhost: x\r\n{headers}\r\n");
            stream.write_all(head.as_bytes()).await.unwrap();
            let mut answer = [0; 12];
            stream.read_exact(&mut answer).await.unwrap();
            assert_eq!(String::from_utf8_lossy(&answer), format!("HTTP/1.1 {status}"), "{headers}");
        }
    }
}
