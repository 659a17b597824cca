//! An open WebSocket, on which only the server sends messages.

use std::pin::pin;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{SinkExt as _, StreamExt as _};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig, frame::coding::CloseCode};
use tokio_tungstenite::tungstenite::{self, Message, Utf8Bytes};

use crate::websocket::bounded_writes;

/// Time between two pings, so that proxies keep a quiet connection open and a client that is gone is noticed.
const PING_EVERY: Duration = Duration::from_secs(30);

/// Time in which a client must take a message. One that reads slower than that is disconnected.
const SEND_TIMEOUT: Duration = Duration::from_secs(30);

/// Bytes of a message of the client, which has nothing to say. Each connection has a buffer of this size.
const MAX_RECEIVED: usize = 4 << 10;

/// Bytes of the largest message that is sent, with its header: a record has up to a mebibyte.
pub(super) const MAX_SENT: usize = 2 << 20;

/// Pings and pongs that a client may send between two pings to it.
pub(super) const MAX_FRAMES: u32 = 100;

/// Time in which a client must answer the end of the connection.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// The client is gone, or does not read.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
#[error("the client is gone")]
pub struct Gone;

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
