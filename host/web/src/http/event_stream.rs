//! Server-sent events (WHATWG HTML, section 9.2): a response that stays open and sends messages as they occur.
//!
//! The source is asked for its next bytes only while the connection has room for them. So a client that reads slowly
//! holds no memory here: the source decides what it misses.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::Stream;
use futures_util::StreamExt as _;
use tokio::time::{Instant, Sleep};

use super::limits;
use crate::fair_share::{Bounds, FairPool};

/// Open event streams. Tenants are users. Each stream keeps a connection open.
pub const OPEN_STREAMS: Bounds = Bounds {
    // An eighth of the connections that the server accepts.
    permits: 1_024,
    // A few dashboards of a team that shares a key, each with a few tabs.
    per_tenant: 128,
    waiting: 0,
    waiting_per_tenant: 0,
    max_wait: Duration::ZERO,
};

/// A comment, which clients ignore. Without it a proxy would close a stream on which nothing happens.
const KEEPALIVE: Bytes = Bytes::from_static(b": keepalive\n\n");

/// The permits of the server's open event streams, of every kind.
pub fn permits() -> FairPool {
    FairPool::new("event_streams", OPEN_STREAMS)
}

/// The messages of an open response, each formatted by [`message`], with comments in between while there are none.
/// The response ends with the messages.
pub struct EventStream {
    messages: Pin<Box<dyn Stream<Item = Bytes> + Send>>,
    /// Ends [`limits::KEEPALIVE`] after the last bytes.
    keepalive: Pin<Box<Sleep>>,
}

impl EventStream {
    pub fn new(messages: impl Stream<Item = Bytes> + Send + 'static) -> Self {
        let keepalive = Box::pin(tokio::time::sleep(limits::KEEPALIVE));
        Self { messages: Box::pin(messages), keepalive }
    }
}

impl Stream for EventStream {
    type Item = Bytes;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let bytes = match self.messages.poll_next_unpin(context) {
            Poll::Ready(Some(bytes)) => bytes,
            Poll::Ready(None) => return Poll::Ready(None),
            Poll::Pending if self.keepalive.as_mut().poll(context).is_ready() => KEEPALIVE,
            Poll::Pending => return Poll::Pending,
        };
        self.keepalive.as_mut().reset(Instant::now() + limits::KEEPALIVE);
        Poll::Ready(Some(bytes))
    }
}

impl fmt::Debug for EventStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EventStream")
    }
}

/// Appends a message with the event type `event`. `data` must have no line break, as JSON text has none.
pub fn message(frame: &mut Vec<u8>, event: &str, data: &[u8]) {
    for part in [b"event: ".as_slice(), event.as_bytes(), b"\ndata: ", data, b"\n\n"] {
        frame.extend_from_slice(part);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::stream;

    use super::*;

    #[test]
    fn a_message_is_two_lines_and_an_empty_one() {
        let mut frame = Vec::new();
        message(&mut frame, "event", b"{}");
        message(&mut frame, "event", b"1");
        assert_eq!(frame, b"event: event\ndata: {}\n\nevent: event\ndata: 1\n\n");
    }

    #[tokio::test(start_paused = true)]
    async fn comments_keep_a_quiet_stream_open() {
        let started = Instant::now();
        let late = async {
            tokio::time::sleep(limits::KEEPALIVE * 5 / 2).await;
            Bytes::from_static(b"late")
        };
        let source = stream::iter([Bytes::from_static(b"first")]).chain(stream::once(late));
        let mut events = EventStream::new(source);
        let mut seen = Vec::new();
        while let Some(bytes) = events.next().await {
            seen.push((started.elapsed().as_secs_f64(), bytes));
        }
        let every = limits::KEEPALIVE.as_secs_f64();
        let expected = [
            (0.0, "first"),
            (every, ": keepalive\n\n"),
            (2.0 * every, ": keepalive\n\n"),
            (2.5 * every, "late"),
        ];
        assert_eq!(seen.len(), expected.len(), "{seen:?}");
        for ((at, bytes), (expected_at, expected)) in seen.iter().zip(expected) {
            assert!((at - expected_at).abs() < 0.01 && bytes == expected, "{seen:?}");
        }
    }
}
