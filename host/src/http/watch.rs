//! Looks after a connection: counts what happens on it, and says when a slow or silent client has had its time.
//!
//! One timer a connection and a few counters, instead of a timer a request: the usual request is answered long
//! before any of them matters. A client that reads slower than [`limits::LEAST_RATE`] is given up; on HTTP/2 this is asked
//! of every answer.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::Notify;

use super::answers::{Pace, Tracked};
use super::limits;

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
    /// The client takes something again.
    writable: Notify,
    /// Several requests share the connection, so bytes say nothing about the progress of one.
    is_h2: AtomicBool,
    /// HTTP/2: bytes of answers that were made and not written.
    unread: AtomicUsize,
    /// HTTP/2: bytes of answers that were written.
    taken: AtomicU64,
    /// HTTP/2: answers that were not written whole, and some that were.
    answers: Mutex<Vec<Weak<Tracked>>>,
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

    /// Waits while the client takes nothing. Answers to further requests would only pile up; a client that goes on like
    /// this is given up.
    pub(super) async fn until_writable(&self) {
        while self.write_waits.load(Relaxed) {
            let writable = self.writable.notified();
            tokio::pin!(writable);
            // From here on no notice is lost.
            writable.as_mut().enable();
            if self.write_waits.load(Relaxed) {
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

    pub(super) fn took(&self, bytes: u64) {
        self.taken.fetch_add(bytes, Relaxed);
    }

    /// Looks after an answer until it is written.
    pub(super) fn track(&self, answer: &Arc<Tracked>) {
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        if answers.len() >= limits::H2_STREAMS as usize {
            answers.retain(|answer| answer.strong_count() > 0);
        }
        answers.push(Arc::downgrade(answer));
    }

    /// The answers that are not written whole.
    fn unfinished(&self) -> Vec<Arc<Tracked>> {
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        let alive: Vec<_> = answers.iter().filter_map(Weak::upgrade).collect();
        if alive.len() < answers.len() {
            *answers = alive.iter().map(Arc::downgrade).collect();
        }
        alive
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
    /// HTTP/2: none of the answers is read, though the socket could take them.
    ClosedWindow,
    Idle,
}

/// The judge of a connection, asked once a tick.
#[derive(Debug, Default)]
pub(super) struct Watch {
    served: u32,
    head_ticks: u32,
    idle_ticks: u32,
    /// Of the socket, while it waits for the client.
    socket: Pace,
    /// HTTP/2: of all answers together.
    answers: Pace,
}

impl Watch {
    /// Whether the connection's time is up.
    pub(super) fn tick(&mut self, counters: &Counters) -> Option<GivenUp> {
        let served = counters.served.load(Relaxed);
        let moved = served != self.served;
        self.served = served;
        let works = counters.in_flight.load(Relaxed) > 0;

        let written = counters.written.load(Relaxed);
        let waits = counters.write_waits.load(Relaxed);
        if !waits {
            self.socket.reset(written);
        } else if self.socket.tick(written).is_some_and(|took| took < limits::LEAST_TAKEN) {
            return Some(GivenUp::SlowReader);
        }
        let answers = self.look_at_answers(counters);
        if answers == Unfinished::Stalled && !works {
            return Some(GivenUp::ClosedWindow);
        }
        if works || waits || answers == Unfinished::Some {
            // The handler is at work, and reading the body has a deadline of its own; or the client reads.
            (self.head_ticks, self.idle_ticks) = (0, 0);
            return None;
        }

        let in_head = !counters.is_h2()
            && (served == 0 || counters.read.load(Relaxed) > counters.read_by_then.load(Relaxed));
        self.head_ticks = if in_head && !moved { self.head_ticks + 1 } else { 0 };
        if self.head_ticks >= limits::HEAD_TICKS {
            return Some(GivenUp::SlowHead);
        }
        self.idle_ticks = if moved { 0 } else { self.idle_ticks + 1 };
        (self.idle_ticks >= limits::IDLE_TICKS).then_some(GivenUp::Idle)
    }

    /// Drops the answers of HTTP/2 that are read too slowly, and leaves the others on the connection alone: a proxy may
    /// share it between many clients. TCP looks idle while a window is closed.
    fn look_at_answers(&mut self, counters: &Counters) -> Unfinished {
        if !counters.is_h2() {
            return Unfinished::None;
        }
        let taken = self.answers.tick(counters.taken.load(Relaxed)).unwrap_or_default();
        let unfinished = counters.unfinished();
        if unfinished.is_empty() {
            return Unfinished::None;
        }
        // Many answers may share a connection that is fast enough, and each is slow then.
        let least = if taken < limits::LEAST_TAKEN {
            limits::LEAST_TAKEN
        } else {
            limits::LEAST_TAKEN.min(taken / (2 * unfinished.len() as u64))
        };
        let mut stalled = 0;
        for answer in &unfinished {
            let took = answer.tick();
            if answer.is_evicted() {
                stalled += 1;
            } else if took.is_some_and(|took| took < least) {
                metrics::counter!("belvedere_http_answers_dropped_total").increment(1);
                answer.evict();
                stalled += 1;
            }
        }
        let all = stalled == unfinished.len() && taken < limits::LEAST_TAKEN;
        if all { Unfinished::Stalled } else { Unfinished::Some }
    }
}

/// The answers of a connection that were not read whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unfinished {
    None,
    Some,
    /// Each of them was read too slowly, and nothing else was read instead.
    Stalled,
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
        let waits = poll.is_pending();
        if self.counters.write_waits.swap(waits, Relaxed) && !waits {
            self.counters.writable.notify_waiters();
        }
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
        let each_tick = limits::LEAST_TAKEN / u64::from(limits::STALL_TICKS);
        for _ in 0..50 {
            counters.written.fetch_add(each_tick, Relaxed);
            assert_eq!(watch.tick(&counters), None);
        }
        // 1,024 bytes in five seconds were enough once.
        counters.written.fetch_add(1024, Relaxed);
        assert_eq!(watch.tick(&counters), Some(GivenUp::SlowReader));

        // One that took all and begins to wait again has its time.
        counters.write_waits.store(false, Relaxed);
        assert_eq!(watch.tick(&counters), None);
        counters.write_waits.store(true, Relaxed);
        for _ in 0..limits::STALL_TICKS {
            counters.written.fetch_add(1024, Relaxed);
            assert_eq!(watch.tick(&counters), None);
        }
        assert_eq!(watch.tick(&counters), Some(GivenUp::SlowReader));
    }

    #[tokio::test]
    async fn requests_wait_while_the_client_takes_nothing() {
        let counters = Counters::default();
        counters.until_writable().await;
        counters.write_waits.store(true, Relaxed);
        let waiting = counters.until_writable();
        tokio::pin!(waiting);
        assert!(futures_util::poll!(&mut waiting).is_pending());
        counters.write_waits.store(false, Relaxed);
        counters.writable.notify_waiters();
        waiting.await;
    }
}
