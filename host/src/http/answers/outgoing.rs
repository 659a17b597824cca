//! The bodies that the server sends.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use http_body_util::Full;

use super::super::limits;
use super::super::watch::Counters;
use super::{Charge, Pace, units};
use crate::fair_share::Place;

/// A body on its way to the client.
#[derive(Debug)]
pub(in super::super) enum Outgoing {
    /// On HTTP/1.1, where the socket shows how fast it is read; and empty ones.
    Whole(Full<Bytes>),
    /// On HTTP/2, where each answer has a window of its own that the client may never open.
    Tracked(Arc<Tracked>),
}

/// The client read too slowly; what was left of its answer is gone.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the client reads too slowly")]
pub(in super::super) struct TooSlow;

/// An answer that knows how much of it was written to the socket. It lives until its last piece was.
#[derive(Debug)]
pub(in super::super) struct Tracked {
    connection: Arc<Counters>,
    /// Larger answers are copied piece by piece: a slice that the HTTP/2 library keeps would keep all of the answer.
    copied: bool,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    rest: Bytes,
    /// Bytes that the HTTP/2 library has and did not write yet.
    handed_out: usize,
    written: u64,
    evicted: bool,
    pace: Pace,
    charge: Charge,
    place: Option<Place>,
}

impl Tracked {
    pub(super) fn new(
        connection: &Arc<Counters>,
        bytes: Bytes,
        charge: Charge,
        place: Option<Place>,
    ) -> Arc<Self> {
        let copied = bytes.len() > limits::ANSWER_PIECE;
        let (handed_out, written, evicted) = Default::default();
        let state = State { rest: bytes, handed_out, written, evicted, pace: Pace::default(), charge, place };
        let answer = Arc::new(Self { connection: Arc::clone(connection), copied, state: Mutex::new(state) });
        connection.track(&answer);
        answer
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Counters and bytes agree after every step.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the client took of it over the last ticks, once it is old enough to say.
    pub(in super::super) fn tick(&self) -> Option<u64> {
        let mut state = self.lock();
        let written = state.written;
        state.pace.tick(written)
    }

    pub(in super::super) fn is_evicted(&self) -> bool {
        self.lock().evicted
    }

    /// Drops what hyper did not take yet, and gives back its room. The stream is reset when the client goes on reading.
    pub(in super::super) fn evict(&self) {
        let mut state = self.lock();
        state.evicted = true;
        state.rest = Bytes::new();
        let left = state.handed_out;
        state.charge.shrink_to(left);
        if let Some(place) = &mut state.place {
            place.shrink_to(units(left));
        }
    }

    fn next_piece(self: &Arc<Self>) -> Option<Result<Bytes, TooSlow>> {
        let mut state = self.lock();
        if state.evicted {
            return Some(Err(TooSlow));
        }
        if state.rest.is_empty() {
            return None;
        }
        let length = state.rest.len().min(limits::ANSWER_PIECE);
        let mut bytes = state.rest.split_to(length);
        if self.copied {
            bytes = Bytes::copy_from_slice(&bytes);
        }
        if state.rest.is_empty() {
            // An empty slice would keep the answer as well.
            state.rest = Bytes::new();
        }
        state.handed_out += length;
        Some(Ok(Bytes::from_owner(Piece { bytes, answer: Arc::clone(self) })))
    }
}

/// A piece of an answer; it is dropped when it was written to the socket.
struct Piece {
    bytes: Bytes,
    answer: Arc<Tracked>,
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        let length = self.bytes.len();
        let mut state = self.answer.lock();
        state.handed_out -= length;
        state.written += length as u64;
        self.answer.connection.took(length as u64);
    }
}

impl http_body::Body for Outgoing {
    type Data = Bytes;
    type Error = TooSlow;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, TooSlow>>> {
        match self.get_mut() {
            Self::Whole(body) => {
                Pin::new(body).poll_frame(context).map_err(|never: Infallible| match never {})
            }
            Self::Tracked(answer) => Poll::Ready(answer.next_piece().map(|piece| piece.map(Frame::data))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(body) => body.is_end_stream(),
            Self::Tracked(answer) => {
                let state = answer.lock();
                state.rest.is_empty() && !state.evicted
            }
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(body) => body.size_hint(),
            Self::Tracked(answer) => SizeHint::with_exact(answer.lock().rest.len() as u64),
        }
    }
}
