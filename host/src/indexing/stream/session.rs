//! Reads one connection from the WebSocket upgrade to its end: chunks, pings and changes of the filter.

use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::{self, Message};
use tokio_util::sync::CancellationToken;

use super::inflate::Inflate;
use super::wanted::Wanted;
use crate::indexing::intake::{CHUNK_BYTES, CHUNK_FRAMES, Intake, Times};
use crate::indexing::settings::Timing;
use crate::lexicons::Followed;

/// Limit for writing a ping or a close frame. When it is exceeded, the send buffer is full: the server does not read.
const PING_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a chunk received before shutdown may still take to enter the pipeline.
const LAST_CHUNK_TIMEOUT: Duration = Duration::from_secs(2);

/// Why a session ended.
#[derive(Debug)]
pub(super) enum End {
    Shutdown,
    /// No connection could be opened.
    Unreachable,
    /// The set of tracked collections changed.
    FilterChanged,
    /// The server sent nothing, not even a pong.
    Silent,
    Closed(String),
    /// The server violated the WebSocket protocol, or sent too large a message.
    Protocol(String),
    Io(String),
    /// The writer has ended.
    PipelineClosed,
}

/// An open connection.
pub(super) struct Session<'a, Io> {
    pub socket: WebSocketStream<Io>,
    pub intake: &'a mut Intake,
    pub inflate: Option<&'a mut Inflate>,
    pub tracked: &'a mut watch::Receiver<Followed>,
    pub wanted: &'a Wanted,
    pub timing: &'a Timing,
    pub shutdown: &'a CancellationToken,
}

impl<Io: AsyncRead + AsyncWrite + Unpin> Session<'_, Io> {
    /// Reads until the connection ends. Calls `progress` for each chunk that entered the pipeline, with the chunk's
    /// times and whether the tracked collections have changed since this subscription.
    pub(super) async fn run(mut self, mut progress: impl FnMut(Times, bool)) -> End {
        let mut frames: Vec<Bytes> = Vec::with_capacity(CHUNK_FRAMES);
        let mut last_received = Instant::now();
        let mut pinged = false;
        // When to resubscribe; set while a change of the tracked collections is debounced.
        let mut resubscribe_at: Option<Instant> = None;
        let mut registry_dropped = false;
        loop {
            let silent_at = last_received + if pinged { self.timing.silence } else { self.timing.ping_after };
            tokio::select! {
                biased;
                () = self.shutdown.cancelled() => {
                    let _ = tokio::time::timeout(PING_TIMEOUT, self.socket.close(None)).await;
                    return End::Shutdown;
                }
                changed = self.tracked.changed(), if !registry_dropped => match changed {
                    Ok(()) => resubscribe_at = Some(Instant::now() + self.timing.debounce),
                    Err(_) => registry_dropped = true,
                },
                () = until(resubscribe_at) => {
                    resubscribe_at = None;
                    let wanted = Wanted::plan(&self.tracked.borrow());
                    if wanted.as_ref() != Some(self.wanted) {
                        let _ = tokio::time::timeout(PING_TIMEOUT, self.socket.close(None)).await;
                        return End::FilterChanged;
                    }
                }
                read = read_chunk(&mut self.socket, &mut frames, self.inflate.as_deref_mut()) => {
                    if let Err(end) = read {
                        return end;
                    }
                    if !frames.is_empty() {
                        let last_chunk = async {
                            self.shutdown.cancelled().await;
                            tokio::time::sleep(LAST_CHUNK_TIMEOUT).await;
                        };
                        tokio::select! {
                            accepted = self.intake.accept(&mut frames) => match accepted {
                                Ok(times) => progress(times, resubscribe_at.is_some()),
                                Err(_) => return End::PipelineClosed,
                            },
                            () = last_chunk => return End::Shutdown,
                        }
                    }
                    // After the chunk was accepted: while the pipeline was full, the socket was not read.
                    last_received = Instant::now();
                    pinged = false;
                }
                () = tokio::time::sleep_until(silent_at) => {
                    if pinged {
                        return End::Silent;
                    }
                    pinged = true;
                    let ping = self.socket.send(Message::Ping(Bytes::new()));
                    match tokio::time::timeout(PING_TIMEOUT, ping).await {
                        Ok(Ok(())) => {}
                        Ok(Err(error)) => return end_of(&error),
                        Err(_) => return End::Silent,
                    }
                }
            }
        }
    }
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

/// Reads the frames that are available, up to a chunk; waits only for the first message. Returns without frames when
/// only pings and pongs arrived. Cancel-safe: `frames` keeps what was read.
async fn read_chunk<Io: AsyncRead + AsyncWrite + Unpin>(
    socket: &mut WebSocketStream<Io>,
    frames: &mut Vec<Bytes>,
    mut inflate: Option<&mut Inflate>,
) -> Result<(), End> {
    let mut size = 0;
    let mut received_control = false;
    std::future::poll_fn(|cx| {
        while frames.len() < CHUNK_FRAMES && size < CHUNK_BYTES {
            let frame = match socket.poll_next_unpin(cx) {
                Poll::Pending if received_control || !frames.is_empty() => break,
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some(Ok(Message::Text(text)))) => text.into(),
                Poll::Ready(Some(Ok(Message::Binary(bytes)))) => match &mut inflate {
                    // A frame that can't be decompressed becomes an empty one, which is counted as malformed.
                    Some(inflate) => inflate.inflate(&bytes).unwrap_or_default(),
                    None => bytes,
                },
                Poll::Ready(Some(Ok(Message::Close(frame)))) if frames.is_empty() => {
                    let reason = frame.map_or_else(
                        || "no reason given".to_owned(),
                        |f| format!("{} {}", f.code, f.reason).chars().take(200).collect(),
                    );
                    return Poll::Ready(Err(End::Closed(reason)));
                }
                Poll::Ready(Some(Ok(_))) => {
                    received_control = true;
                    continue;
                }
                // Return the frames first; the next read reports the end or the error again.
                Poll::Ready(_) if !frames.is_empty() => break,
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Err(end_of(&error))),
                Poll::Ready(None) => return Poll::Ready(Err(End::Closed("end of stream".to_owned()))),
            };
            size += frame.len();
            frames.push(frame);
        }
        Poll::Ready(Ok(()))
    })
    .await
}

fn end_of(error: &tungstenite::Error) -> End {
    use tungstenite::Error::{AlreadyClosed, Capacity, ConnectionClosed, Protocol, Utf8};
    use tungstenite::error::ProtocolError::ResetWithoutClosingHandshake;
    let text = error.to_string();
    match error {
        ConnectionClosed | AlreadyClosed => End::Closed(text),
        // The connection was cut; that is not a violation of the protocol.
        Protocol(ResetWithoutClosingHandshake) => End::Io(text),
        Capacity(_) | Protocol(_) | Utf8(_) => End::Protocol(text),
        _ => End::Io(text),
    }
}

impl End {
    /// The text for the log and the event log.
    pub(super) fn reason(&self) -> String {
        match self {
            Self::Unreachable => "no connection".to_owned(),
            Self::Shutdown => "shutting down".to_owned(),
            Self::FilterChanged => "the tracked collections changed".to_owned(),
            Self::Silent => "the server stopped responding".to_owned(),
            Self::Closed(why) => format!("closed by the server: {why}"),
            Self::Protocol(why) => format!("protocol error: {why}"),
            Self::Io(why) => format!("connection lost: {why}"),
            Self::PipelineClosed => "the index writer has stopped".to_owned(),
        }
    }
}
