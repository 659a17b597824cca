//! The messages that wait for one connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio::sync::mpsc;

use belvedere_web::http::websocket::Frame;

/// Messages that wait for a connection: two seconds at a thousand a second. The memory of one message is shared by all.
const MAX_FRAMES: usize = 2_048;

/// Bytes that wait for a connection. A larger message is accepted alone.
const MAX_BYTES: usize = 4 << 20;

/// The messages of a change, with its number.
#[derive(Clone, Debug)]
pub(super) struct Numbered {
    pub(super) seq: i64,
    /// More than one only of a script.
    pub(super) frames: Arc<[Frame]>,
}

impl Numbered {
    pub(super) fn one(seq: i64, frame: Frame) -> Self {
        Self { seq, frames: Arc::new([frame]) }
    }

    fn size(&self) -> usize {
        self.frames.iter().map(Frame::size).sum()
    }
}

#[derive(Debug, Default)]
struct State {
    bytes: AtomicUsize,
    is_overrun: AtomicBool,
}

#[derive(Debug)]
pub(super) struct Sender {
    frames: mpsc::Sender<Numbered>,
    state: Arc<State>,
}

#[derive(Debug)]
pub(super) struct Receiver {
    frames: mpsc::Receiver<Numbered>,
    state: Arc<State>,
}

/// The end of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// More messages came than the connection took.
    Overrun,
    /// There will be no more.
    Closed,
}

pub(super) fn queue() -> (Sender, Receiver) {
    let (sender, receiver) = mpsc::channel(MAX_FRAMES);
    let state = Arc::<State>::default();
    (Sender { frames: sender, state: Arc::clone(&state) }, Receiver { frames: receiver, state })
}

impl Sender {
    /// Passes a message on. `false`: the connection is gone, or does not keep up; the sender must be dropped.
    pub(super) fn send(&self, message: Numbered) -> bool {
        // A connection that wants several accounts is found by each of them. A message after a lost one would hide the loss.
        if !self.is_open() {
            return false;
        }
        let size = message.size();
        let waiting = self.state.bytes.fetch_add(size, Ordering::AcqRel);
        let has_room = waiting == 0 || waiting + size <= MAX_BYTES;
        if has_room && self.frames.try_send(message).is_ok() {
            return true;
        }
        if !self.frames.is_closed() {
            self.state.is_overrun.store(true, Ordering::Release);
        }
        false
    }

    /// Whether the connection still takes messages.
    pub(super) fn is_open(&self) -> bool {
        !self.frames.is_closed() && !self.state.is_overrun.load(Ordering::Acquire)
    }
}

impl Receiver {
    /// Waits for messages. Returns those that are there; cancel-safe.
    ///
    /// # Errors
    /// See [`Ended`]. Messages that waited when the queue was overrun are lost.
    pub(super) async fn receive(&mut self) -> Result<Vec<Numbered>, Ended> {
        let first = self.frames.recv().await;
        if self.state.is_overrun.load(Ordering::Acquire) {
            return Err(Ended::Overrun);
        }
        let mut messages = vec![first.ok_or(Ended::Closed)?];
        while let Ok(message) = self.frames.try_recv() {
            messages.push(message);
        }
        let size = messages.iter().map(Numbered::size).sum();
        self.state.bytes.fetch_sub(size, Ordering::AcqRel);
        Ok(messages)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(seq: i64, bytes: usize) -> Numbered {
        Numbered::one(seq, Frame::binary(vec![0; bytes]))
    }

    #[tokio::test]
    async fn messages_arrive_in_order_until_there_are_too_many() {
        let (sender, mut receiver) = queue();
        assert!(sender.send(message(1, MAX_BYTES + 1)), "a large message alone");
        assert!(receiver.receive().await.is_ok());
        for seq in 2..2 + MAX_FRAMES as i64 {
            assert!(sender.send(message(seq, 1)));
        }
        let received = receiver.receive().await.unwrap();
        assert!(received.iter().map(|message| message.seq).eq(2..2 + MAX_FRAMES as i64));
        for seq in 0..MAX_FRAMES as i64 {
            assert!(sender.send(message(seq, 1)));
        }
        assert!(!sender.send(message(9, 1)));
        assert!(receiver.frames.try_recv().is_ok());
        assert!(!sender.send(message(10, 1)), "none after a lost one");
        assert_eq!(receiver.receive().await.unwrap_err(), Ended::Overrun);
    }

    #[tokio::test]
    async fn the_bytes_that_wait_are_bounded() {
        let (sender, mut receiver) = queue();
        assert!(sender.send(message(1, MAX_BYTES)));
        assert!(!sender.send(message(2, 1)));
        assert_eq!(receiver.receive().await.unwrap_err(), Ended::Overrun);
        let (sender, mut receiver) = queue();
        assert!(sender.send(message(1, 1)));
        drop(sender);
        assert_eq!(receiver.receive().await.unwrap()[0].seq, 1);
        assert_eq!(receiver.receive().await.unwrap_err(), Ended::Closed);
    }
}
