//! Looks after a connection: counts what happens on it, and says when a slow or silent client has had its time.
//!
//! One timer a connection and a few counters, instead of a timer a request: the usual request is answered long
//! before any of them matters.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use super::limits;

/// A client that takes less of a response than this in one tick counts as taking nothing: slower links carry no
/// web, but a hostile client can read a byte at a time.
const LEAST_PROGRESS: u64 = 1024;

/// What has happened on one connection so far.
#[derive(Debug, Default)]
pub(super) struct Counters {
    /// Requests whose handler is running.
    in_flight: AtomicU32,
    /// Requests answered.
    served: AtomicU32,
    read: AtomicU64,
    written: AtomicU64,
    /// How much was read when the last request was answered. More than that is the head of the next one.
    read_by_then: AtomicU64,
    /// The client has not taken all that we have for it.
    write_waits: AtomicBool,
    /// Several requests share the connection, so bytes say nothing about the progress of one.
    is_h2: AtomicBool,
}

/// Lives as long as a request's handler, however that ends.
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
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let counters = &self.0;
        counters.read_by_then.store(counters.read.load(Relaxed), Relaxed);
        counters.served.fetch_add(1, Relaxed);
        counters.in_flight.fetch_sub(1, Relaxed);
    }
}

/// Why a connection was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GivenUp {
    SlowHead,
    SlowReader,
    Idle,
}

/// The judge of a connection, asked once a tick.
#[derive(Debug, Default)]
pub(super) struct Watch {
    served: u32,
    written: u64,
    head_ticks: u32,
    stall_ticks: u32,
    idle_ticks: u32,
}

impl Watch {
    /// Whether the connection's time is up.
    pub(super) fn tick(&mut self, counters: &Counters) -> Option<GivenUp> {
        let served = counters.served.load(Relaxed);
        let written = counters.written.load(Relaxed);
        let moved = served != self.served;
        let took = written - self.written;
        self.served = served;
        self.written = written;

        if counters.in_flight.load(Relaxed) > 0 {
            // The handler is at work; reading the body has a deadline of its own.
            *self = Self { served, written, ..Self::default() };
            return None;
        }
        if counters.write_waits.load(Relaxed) {
            self.stall_ticks = if took >= LEAST_PROGRESS { 0 } else { self.stall_ticks + 1 };
            return (self.stall_ticks >= limits::STALL_TICKS).then_some(GivenUp::SlowReader);
        }
        self.stall_ticks = 0;

        let in_head = !counters.is_h2.load(Relaxed)
            && (served == 0 || counters.read.load(Relaxed) > counters.read_by_then.load(Relaxed));
        self.head_ticks = if in_head && !moved { self.head_ticks + 1 } else { 0 };
        if self.head_ticks >= limits::HEAD_TICKS {
            return Some(GivenUp::SlowHead);
        }
        self.idle_ticks = if moved { 0 } else { self.idle_ticks + 1 };
        (self.idle_ticks >= limits::IDLE_TICKS).then_some(GivenUp::Idle)
    }
}

/// A socket that counts.
#[derive(Debug)]
pub(super) struct Counted {
    stream: TcpStream,
    counters: Arc<Counters>,
}

impl Counted {
    pub(super) fn new(stream: TcpStream, counters: Arc<Counters>) -> Self {
        Self { stream, counters }
    }

    fn wrote(&self, poll: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        self.counters.write_waits.store(poll.is_pending(), Relaxed);
        if let Poll::Ready(Ok(count)) = &poll {
            self.counters.written.fetch_add(*count as u64, Relaxed);
        }
        poll
    }
}

impl AsyncRead for Counted {
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

impl AsyncWrite for Counted {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.wrote(poll)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.wrote(poll)
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

    fn ticks_until_given_up(watch: &mut Watch, counters: &Counters) -> (u32, GivenUp) {
        for tick in 1..100 {
            if let Some(why) = watch.tick(counters) {
                return (tick, why);
            }
        }
        panic!("never given up")
    }

    #[test]
    fn a_client_that_sends_nothing_or_drips_its_head_is_given_up() {
        let counters = Counters::default();
        let mut watch = Watch::default();
        assert_eq!(ticks_until_given_up(&mut watch, &counters), (limits::HEAD_TICKS, GivenUp::SlowHead));

        let counters = Arc::new(Counters::default());
        drop(counters.begin(false));
        let mut watch = Watch::default();
        assert_eq!(watch.tick(&counters), None);
        counters.read.fetch_add(1, Relaxed);
        assert_eq!(ticks_until_given_up(&mut watch, &counters), (limits::HEAD_TICKS, GivenUp::SlowHead));
    }

    #[test]
    fn an_idle_connection_may_wait_longer() {
        let counters = Arc::new(Counters::default());
        drop(counters.begin(false));
        let mut watch = Watch::default();
        let (ticks, why) = ticks_until_given_up(&mut watch, &counters);
        assert_eq!((ticks, why), (limits::IDLE_TICKS + 1, GivenUp::Idle));
    }

    #[test]
    fn a_working_handler_is_never_given_up_but_a_slow_reader_is() {
        let counters = Arc::new(Counters::default());
        let request = counters.begin(false);
        let mut watch = Watch::default();
        assert!((0..1000).all(|_| watch.tick(&counters).is_none()));
        drop(request);
        counters.write_waits.store(true, Relaxed);
        for _ in 0..50 {
            counters.written.fetch_add(LEAST_PROGRESS, Relaxed);
            assert_eq!(watch.tick(&counters), None);
        }
        for _ in 1..limits::STALL_TICKS {
            counters.written.fetch_add(1, Relaxed);
            assert_eq!(watch.tick(&counters), None);
        }
        assert_eq!(watch.tick(&counters), Some(GivenUp::SlowReader));
    }
}
