//! Reads a connection in chunks, and detects that the server no longer responds.

use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::{self, Message};

/// Limit for writing a ping or a close frame. When it is exceeded, the send buffer is full: the server does not read.
const PING_TIMEOUT: Duration = Duration::from_secs(5);

/// Characters of a server's reason for closing that are kept.
const MAX_REASON_CHARS: usize = 200;

/// The intervals that keep a connection alive.
#[derive(Clone, Copy, Debug)]
pub struct KeepAlive {
    /// A ping is sent when nothing was received for this long.
    pub ping_after: Duration,
    /// The connection is considered half-open and closed when nothing (no frame, no pong) was received for this long.
    pub silence: Duration,
}

/// The size of a chunk. It ends with the message that reaches one of the limits.
#[derive(Clone, Copy, Debug)]
pub struct ChunkLimits {
    pub frames: usize,
    pub bytes: usize,
}

/// The reason why a connection is lost.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum Lost {
    /// The server sent nothing, not even a pong.
    #[error("the server stopped responding")]
    Silent,
    #[error("closed by the server: {0}")]
    Closed(String),
    /// The server violated the WebSocket protocol, or sent too large a message.
    #[error("protocol error: {0}")]
    Protocol(String),
    #[error("connection lost: {0}")]
    Io(String),
    /// The caller can't decode a message. Those after it were not read.
    #[error("a message can't be decoded")]
    Undecodable,
}

/// An open connection.
#[derive(Debug)]
pub struct Connection<Io> {
    socket: WebSocketStream<Io>,
    keep_alive: KeepAlive,
    limits: ChunkLimits,
    last_received: Instant,
    pinged: bool,
    /// The last read returned frames, with which the caller was busy since.
    delivered: bool,
    /// The reason why the connection is lost, when frames came before that.
    lost: Option<Lost>,
}

impl<Io: AsyncRead + AsyncWrite + Unpin> Connection<Io> {
    pub fn new(socket: WebSocketStream<Io>, keep_alive: KeepAlive, limits: ChunkLimits) -> Self {
        let last_received = Instant::now();
        Self { socket, keep_alive, limits, last_received, pinged: false, delivered: false, lost: None }
    }

    /// Reads the frames that are available, up to a chunk; waits only for the first. `decode` converts binary messages;
    /// one that it can't ends the connection.
    /// Cancel-safe: `frames` keeps what was read.
    ///
    /// # Errors
    /// When the connection is lost. Frames before that are returned first.
    pub async fn read_chunk(
        &mut self,
        frames: &mut Vec<Bytes>,
        mut decode: impl FnMut(Bytes) -> Option<Bytes>,
    ) -> Result<(), Lost> {
        if let Some(lost) = self.lost.take() {
            return Err(lost);
        }
        if self.delivered {
            // While the caller was busy, the socket was not read.
            self.heard();
        }
        loop {
            let silent_at = self.last_received
                + if self.pinged { self.keep_alive.silence } else { self.keep_alive.ping_after };
            tokio::select! {
                biased;
                read = poll_chunk(&mut self.socket, frames, self.limits, &mut decode) => {
                    self.lost = read?;
                    self.heard();
                    if !frames.is_empty() {
                        self.delivered = true;
                        return Ok(());
                    }
                }
                () = tokio::time::sleep_until(silent_at) => self.ping().await?,
            }
        }
    }

    /// Sends a close frame.
    pub async fn close(&mut self) {
        // An error means that the connection is closed already.
        let _ = tokio::time::timeout(PING_TIMEOUT, self.socket.close(None)).await;
    }

    fn heard(&mut self) {
        self.last_received = Instant::now();
        self.pinged = false;
        self.delivered = false;
    }

    async fn ping(&mut self) -> Result<(), Lost> {
        if self.pinged {
            return Err(Lost::Silent);
        }
        self.pinged = true;
        let ping = self.socket.send(Message::Ping(Bytes::new()));
        match tokio::time::timeout(PING_TIMEOUT, ping).await {
            Ok(sent) => sent.map_err(|error| lost(&error)),
            Err(_) => Err(Lost::Silent),
        }
    }
}

/// Reads up to a chunk. Returns without frames when only pings and pongs arrived, and with the error that came
/// after some.
async fn poll_chunk<Io: AsyncRead + AsyncWrite + Unpin>(
    socket: &mut WebSocketStream<Io>,
    frames: &mut Vec<Bytes>,
    limits: ChunkLimits,
    decode: &mut impl FnMut(Bytes) -> Option<Bytes>,
) -> Result<Option<Lost>, Lost> {
    let mut size = 0;
    let mut received_control = false;
    std::future::poll_fn(|cx| {
        while frames.len() < limits.frames && size < limits.bytes {
            let message: Result<Bytes, Lost> = match socket.poll_next_unpin(cx) {
                Poll::Pending if received_control || !frames.is_empty() => break,
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some(Ok(Message::Text(text)))) => Ok(text.into()),
                Poll::Ready(Some(Ok(Message::Binary(bytes)))) => decode(bytes).ok_or(Lost::Undecodable),
                Poll::Ready(Some(Ok(Message::Close(frame)))) => {
                    let reason = frame.map_or_else(
                        || "no reason given".to_owned(),
                        |f| shown(&format!("{} {}", f.code, f.reason)),
                    );
                    Err(Lost::Closed(reason))
                }
                Poll::Ready(Some(Ok(_))) => {
                    received_control = true;
                    continue;
                }
                Poll::Ready(Some(Err(error))) => Err(lost(&error)),
                Poll::Ready(None) => Err(Lost::Closed("end of stream".to_owned())),
            };
            match message {
                Ok(frame) => {
                    size += frame.len();
                    frames.push(frame);
                }
                Err(lost) if frames.is_empty() => return Poll::Ready(Err(lost)),
                Err(lost) => return Poll::Ready(Ok(Some(lost))),
            }
        }
        Poll::Ready(Ok(None))
    })
    .await
}

/// A text of the server for the operator, short and without control characters, which PostgreSQL can't all store.
fn shown(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(MAX_REASON_CHARS).collect()
}

fn lost(error: &tungstenite::Error) -> Lost {
    use tungstenite::Error::{AlreadyClosed, Capacity, ConnectionClosed, Protocol, Utf8};
    use tungstenite::error::ProtocolError::ResetWithoutClosingHandshake;
    let text = error.to_string();
    match error {
        ConnectionClosed | AlreadyClosed => Lost::Closed(text),
        // The connection was cut; that is not a violation of the protocol.
        Protocol(ResetWithoutClosingHandshake) => Lost::Io(text),
        Capacity(_) | Protocol(_) | Utf8(_) => Lost::Protocol(text),
        _ => Lost::Io(text),
    }
}

#[cfg(test)]
mod tests {
    use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role};

    use super::*;

    const KEEP_ALIVE: KeepAlive =
        KeepAlive { ping_after: Duration::from_secs(30), silence: Duration::from_mins(1) };

    /// Both ends of a connection.
    async fn pair() -> (Connection<tokio::io::DuplexStream>, WebSocketStream<tokio::io::DuplexStream>) {
        let (client, server) = tokio::io::duplex(1 << 20);
        let client = WebSocketStream::from_raw_socket(client, Role::Client, None).await;
        let server = WebSocketStream::from_raw_socket(server, Role::Server, None).await;
        (Connection::new(client, KEEP_ALIVE, ChunkLimits { frames: 2, bytes: 100 }), server)
    }

    async fn read(connection: &mut Connection<tokio::io::DuplexStream>) -> Result<Vec<Bytes>, Lost> {
        let mut frames = Vec::new();
        connection.read_chunk(&mut frames, Some).await.map(|()| frames)
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_does_not_answer_pings_is_left() {
        let (mut connection, _server) = pair().await;
        let started = Instant::now();
        assert_eq!(read(&mut connection).await, Err(Lost::Silent));
        assert_eq!(started.elapsed(), KEEP_ALIVE.silence);
    }

    #[tokio::test(start_paused = true)]
    async fn a_busy_caller_does_not_make_the_server_silent() {
        let (mut connection, mut server) = pair().await;
        server.send(Message::binary(vec![1])).await.unwrap();
        assert_eq!(read(&mut connection).await.unwrap().len(), 1);
        tokio::time::sleep(Duration::from_mins(10)).await;
        let started = Instant::now();
        assert_eq!(read(&mut connection).await, Err(Lost::Silent));
        assert_eq!(started.elapsed(), KEEP_ALIVE.silence, "counted from the end of the caller's work");
    }

    #[tokio::test]
    async fn a_message_that_cannot_be_decoded_ends_the_connection_after_those_before_it() {
        let (mut connection, mut server) = pair().await;
        for byte in [1, 0, 2] {
            server.send(Message::binary(vec![byte])).await.unwrap();
        }
        let decode = |bytes: Bytes| Some(bytes).filter(|bytes| bytes[0] != 0);
        let mut frames = Vec::new();
        assert_eq!(connection.read_chunk(&mut frames, decode).await, Ok(()));
        assert_eq!(frames, [Bytes::from_static(&[1])]);
        assert_eq!(connection.read_chunk(&mut frames, decode).await, Err(Lost::Undecodable));
    }

    #[tokio::test]
    async fn chunks_end_at_a_limit_and_frames_come_before_the_end() {
        let (mut connection, mut server) = pair().await;
        for size in [1, 1, 100, 1] {
            server.send(Message::binary(vec![0; size])).await.unwrap();
        }
        let reason = CloseFrame { code: 1000.into(), reason: "bye\0\n".into() };
        server.close(Some(reason)).await.unwrap();
        let sizes = |frames: Vec<Bytes>| frames.iter().map(Bytes::len).collect::<Vec<_>>();
        assert_eq!(sizes(read(&mut connection).await.unwrap()), [1, 1]);
        assert_eq!(sizes(read(&mut connection).await.unwrap()), [100]);
        assert_eq!(sizes(read(&mut connection).await.unwrap()), [1]);
        assert_eq!(read(&mut connection).await, Err(Lost::Closed("1000 bye".to_owned())));
    }
}
