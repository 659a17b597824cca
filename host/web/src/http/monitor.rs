//! Monitors a connection: counts its bytes and requests, and decides when to close it because its client is slow or
//! idle.
//!
//! It uses one timer for each connection and a few counters instead of a timer for each request, because most requests
//! are answered long before a timer would matter. A connection whose client reads slower than [`limits::MIN_READ_RATE`]
//! is closed; on HTTP/2 the rate is checked for each response.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::Notify;

use super::limits;
use super::pace::Pace;

/// The counters of one connection.
#[derive(Debug, Default)]
pub(super) struct Counters {
    /// Requests whose handler is running.
    in_flight: AtomicU32,
    /// Requests answered.
    served: AtomicU32,
    read: AtomicU64,
    written: AtomicU64,
    /// `read` when the last request was answered. Bytes after that belong to the head of the next request.
    read_at_last_response: AtomicU64,
    /// A write is pending: the client has not taken all bytes yet.
    write_pending: AtomicBool,
    /// Notified when a pending write has made progress.
    writable: Notify,
    /// HTTP/2: several requests share the connection, so its bytes don't show the progress of one.
    is_h2: AtomicBool,
    /// HTTP/2: bytes of responses that are not written yet.
    unread: AtomicUsize,
    /// HTTP/2: bytes of responses that were written.
    taken: AtomicU64,
    /// HTTP/2: the responses that are not completely written, and some dead references to others.
    responses: Mutex<Vec<Weak<dyn PacedResponse>>>,
}

/// A response that is being written, as its connection sees it.
pub(super) trait PacedResponse: fmt::Debug + Send + Sync {
    /// Ends a tick. Returns the bytes that the client took over the last [`limits::STALL_TICKS`] ticks; `None` while the
    /// response is younger.
    fn tick(&self) -> Option<u64>;

    fn is_evicted(&self) -> bool;

    /// Drops what hyper has not taken yet and releases its reservation. The stream is reset when the client reads on.
    fn evict(&self);
}

/// Counts a request as in flight until it is dropped.
#[derive(Debug)]
pub(super) struct InFlight(Arc<Counters>);

impl Counters {
    pub(super) fn begin(self: &Arc<Self>, is_h2: bool) -> InFlight {
        self.in_flight.fetch_add(1, Relaxed);
        if is_h2 {
            self.is_h2.store(true, Relaxed);
        }
        InFlight(Arc::clone(self))
    }

    /// Waits while a write is pending, so that responses to further requests don't pile up.
    pub(super) async fn until_writable(&self) {
        while self.write_pending.load(Relaxed) {
            let writable = self.writable.notified();
            tokio::pin!(writable);
            // From here on no notification is lost.
            writable.as_mut().enable();
            if self.write_pending.load(Relaxed) {
                writable.await;
            }
        }
    }

    pub(super) fn is_h2(&self) -> bool {
        self.is_h2.load(Relaxed)
    }

    pub(super) fn unread(&self) -> usize {
        self.unread.load(Relaxed)
    }

    pub(super) fn add_unread(&self, bytes: usize) {
        self.unread.fetch_add(bytes, Relaxed);
    }

    pub(super) fn sub_unread(&self, bytes: usize) {
        self.unread.fetch_sub(bytes, Relaxed);
    }

    pub(super) fn add_taken(&self, bytes: u64) {
        self.taken.fetch_add(bytes, Relaxed);
    }

    /// Monitors a response until it is written.
    pub(super) fn track(&self, response: Weak<dyn PacedResponse>) {
        let mut responses = self.responses.lock().unwrap_or_else(PoisonError::into_inner);
        if responses.len() >= limits::H2_STREAMS as usize {
            responses.retain(|response| response.strong_count() > 0);
        }
        responses.push(response);
    }

    /// The responses that are not completely written.
    fn unfinished(&self) -> Vec<Arc<dyn PacedResponse>> {
        let mut responses = self.responses.lock().unwrap_or_else(PoisonError::into_inner);
        let alive: Vec<_> = responses.iter().filter_map(Weak::upgrade).collect();
        if alive.len() < responses.len() {
            *responses = alive.iter().map(Arc::downgrade).collect();
        }
        alive
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let counters = &self.0;
        counters.read_at_last_response.store(counters.read.load(Relaxed), Relaxed);
        counters.served.fetch_add(1, Relaxed);
        counters.in_flight.fetch_sub(1, Relaxed);
    }
}

/// The reason why a connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CloseReason {
    SlowHead,
    SlowReader,
    /// HTTP/2: the client reads none of the responses, although the socket is writable.
    ClosedWindow,
    Idle,
}

/// Decides once a tick whether to close a connection.
#[derive(Debug, Default)]
pub(super) struct Monitor {
    served: u32,
    head_ticks: u32,
    idle_ticks: u32,
    /// The pace of the socket, while a write is pending.
    socket: Pace,
    /// HTTP/2: the pace of all responses together.
    responses: Pace,
}

impl Monitor {
    /// Ends a tick. Returns the reason to close the connection, if there is one.
    pub(super) fn tick(&mut self, counters: &Counters) -> Option<CloseReason> {
        let served = counters.served.load(Relaxed);
        let progressed = served != self.served;
        self.served = served;
        let busy = counters.in_flight.load(Relaxed) > 0;

        let written = counters.written.load(Relaxed);
        let write_pending = counters.write_pending.load(Relaxed);
        if !write_pending {
            self.socket.reset(written);
        } else if self.socket.tick(written).is_some_and(|took| took < limits::MIN_READ_BYTES) {
            return Some(CloseReason::SlowReader);
        }
        let responses = self.check_responses(counters);
        if responses == Unfinished::Stalled && !busy {
            return Some(CloseReason::ClosedWindow);
        }
        if busy || write_pending || responses == Unfinished::Some {
            // A handler is running (reading the request body has a deadline of its own), or the client is reading.
            (self.head_ticks, self.idle_ticks) = (0, 0);
            return None;
        }

        let in_head = !counters.is_h2()
            && (served == 0 || counters.read.load(Relaxed) > counters.read_at_last_response.load(Relaxed));
        self.head_ticks = if in_head && !progressed { self.head_ticks + 1 } else { 0 };
        if self.head_ticks >= limits::HEAD_TICKS {
            return Some(CloseReason::SlowHead);
        }
        self.idle_ticks = if progressed { 0 } else { self.idle_ticks + 1 };
        (self.idle_ticks >= limits::IDLE_TICKS).then_some(CloseReason::Idle)
    }

    /// Drops the HTTP/2 responses that are read too slowly. Others on the connection continue, because a proxy may
    /// share it between many clients. The socket alone does not show this: it is idle while a window is closed.
    fn check_responses(&mut self, counters: &Counters) -> Unfinished {
        if !counters.is_h2() {
            return Unfinished::None;
        }
        let taken = self.responses.tick(counters.taken.load(Relaxed)).unwrap_or_default();
        let unfinished = counters.unfinished();
        if unfinished.is_empty() {
            return Unfinished::None;
        }
        // On a connection that is fast enough, many responses share the rate, so each may be slower.
        let minimum = if taken < limits::MIN_READ_BYTES {
            limits::MIN_READ_BYTES
        } else {
            limits::MIN_READ_BYTES.min(taken / (2 * unfinished.len() as u64))
        };
        let mut stalled = 0;
        for response in &unfinished {
            let took = response.tick();
            if response.is_evicted() {
                stalled += 1;
            } else if took.is_some_and(|took| took < minimum) {
                metrics::counter!("belvedere_http_answers_dropped_total").increment(1);
                response.evict();
                stalled += 1;
            }
        }
        let all = stalled == unfinished.len() && taken < limits::MIN_READ_BYTES;
        if all { Unfinished::Stalled } else { Unfinished::Some }
    }
}

/// The state of a connection's unfinished responses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unfinished {
    None,
    Some,
    /// Each is read too slowly, and so are all of them together.
    Stalled,
}

/// A socket that counts bytes and records whether a write is pending.
#[derive(Debug)]
pub(super) struct CountingStream {
    stream: TcpStream,
    counters: Arc<Counters>,
}

impl CountingStream {
    pub(super) fn new(stream: TcpStream, counters: Arc<Counters>) -> Self {
        Self { stream, counters }
    }

    fn record_write(&self, poll: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        let pending = poll.is_pending();
        if self.counters.write_pending.swap(pending, Relaxed) && !pending {
            self.counters.writable.notify_waiters();
        }
        if let Poll::Ready(Ok(count)) = &poll {
            self.counters.written.fetch_add(*count as u64, Relaxed);
        }
        poll
    }
}

impl AsyncRead for CountingStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let poll = Pin::new(&mut self.stream).poll_read(cx, buf);
        self.counters.read.fetch_add((buf.filled().len() - before) as u64, Relaxed);
        poll
    }
}

impl AsyncWrite for CountingStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.record_write(poll)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.record_write(poll)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticks_until_closed(monitor: &mut Monitor, counters: &Counters) -> (u32, CloseReason) {
        for tick in 1..100 {
            if let Some(reason) = monitor.tick(counters) {
                return (tick, reason);
            }
        }
        panic!("never closed")
    }

    #[test]
    fn a_connection_without_a_complete_head_is_closed() {
        let counters = Counters::default();
        let mut monitor = Monitor::default();
        assert_eq!(ticks_until_closed(&mut monitor, &counters), (limits::HEAD_TICKS, CloseReason::SlowHead));

        let counters = Arc::new(Counters::default());
        drop(counters.begin(false));
        let mut monitor = Monitor::default();
        assert_eq!(monitor.tick(&counters), None);
        counters.read.fetch_add(1, Relaxed);
        assert_eq!(ticks_until_closed(&mut monitor, &counters), (limits::HEAD_TICKS, CloseReason::SlowHead));
    }

    #[test]
    fn an_idle_connection_may_wait_longer() {
        let counters = Arc::new(Counters::default());
        drop(counters.begin(false));
        let mut monitor = Monitor::default();
        let (ticks, reason) = ticks_until_closed(&mut monitor, &counters);
        assert_eq!((ticks, reason), (limits::IDLE_TICKS + 1, CloseReason::Idle));
    }

    #[test]
    fn a_busy_connection_stays_open_and_one_with_a_slow_reader_is_closed() {
        let counters = Arc::new(Counters::default());
        let request = counters.begin(false);
        let mut monitor = Monitor::default();
        assert!((0..1000).all(|_| monitor.tick(&counters).is_none()));
        drop(request);
        counters.write_pending.store(true, Relaxed);
        let each_tick = limits::MIN_READ_BYTES / u64::from(limits::STALL_TICKS);
        for _ in 0..50 {
            counters.written.fetch_add(each_tick, Relaxed);
            assert_eq!(monitor.tick(&counters), None);
        }
        // 1,024 bytes in one tick are below the minimum rate.
        counters.written.fetch_add(1024, Relaxed);
        assert_eq!(monitor.tick(&counters), Some(CloseReason::SlowReader));

        // After it has taken all bytes, the time starts again with the next pending write.
        counters.write_pending.store(false, Relaxed);
        assert_eq!(monitor.tick(&counters), None);
        counters.write_pending.store(true, Relaxed);
        for _ in 0..limits::STALL_TICKS {
            counters.written.fetch_add(1024, Relaxed);
            assert_eq!(monitor.tick(&counters), None);
        }
        assert_eq!(monitor.tick(&counters), Some(CloseReason::SlowReader));
    }

    #[tokio::test]
    async fn requests_wait_while_the_client_takes_nothing() {
        let counters = Counters::default();
        counters.until_writable().await;
        counters.write_pending.store(true, Relaxed);
        let waiting = counters.until_writable();
        tokio::pin!(waiting);
        assert!(futures_util::poll!(&mut waiting).is_pending());
        counters.write_pending.store(false, Relaxed);
        counters.writable.notify_waiters();
        waiting.await;
    }
}
