//! The body type of responses: sends in pieces on HTTP/2, and everywhere what comes into being while it is sent; tracks how much
//! was written, and drops what is read too slowly.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use http_body_util::Full;

use super::super::limits;
use super::super::monitor::{Counters, InFlight, PacedResponse};
use super::super::pace::Pace;
use super::super::response::{Interrupted, OpenBody};
use super::{Charge, units};
use crate::fair_share::Permit;

/// The body of a response that is being sent.
#[derive(Debug)]
pub(in super::super) enum ResponseBody {
    /// HTTP/1.1, where the socket shows how fast the client reads; and empty bodies.
    Whole(Full<Bytes>),
    /// HTTP/2, where each response has a flow-control window that the client may never open; and open responses.
    Tracked(Arc<TrackedResponse>),
}

impl ResponseBody {
    /// Ends a request's handler. An open response remains in flight until it ends, so that its connection is not idle.
    pub(in super::super) fn answered(self, in_flight: InFlight) -> Self {
        if let Self::Tracked(response) = &self
            && let Some(source) = &mut response.lock().source
        {
            source.in_flight = Some(in_flight);
        }
        self
    }
}

/// The source of an open response.
#[derive(Debug)]
struct Source {
    body: OpenBody,
    /// It has nothing to send now: then a client that takes nothing is not slow.
    is_quiet: bool,
    /// Until it has ended, its connection is not idle.
    in_flight: Option<InFlight>,
}

/// The reason why a response ends before its last byte.
#[derive(Clone, Copy, Debug, thiserror::Error)]
pub(in super::super) enum Unsent {
    #[error("the client reads too slowly")]
    TooSlow,
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
}

/// A response that tracks how much of it was written to the socket. It lives until its last piece was written.
#[derive(Debug)]
pub(in super::super) struct TrackedResponse {
    connection: Arc<Counters>,
    /// Whether pieces are copies: a slice in the library's buffer would keep all of a large response in memory.
    copied: bool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    rest: Bytes,
    /// The source of what follows `rest`, until it has ended.
    source: Option<Source>,
    /// Bytes that the HTTP library has taken and not written yet.
    handed_out: usize,
    written: u64,
    evicted: bool,
    pace: Pace,
    /// `None` for an open response, whose permit covers what is in memory.
    charge: Option<Charge>,
    permit: Option<Permit>,
}

impl TrackedResponse {
    pub(super) fn new(
        connection: &Arc<Counters>,
        bytes: Bytes,
        charge: Charge,
        permit: Option<Permit>,
    ) -> Arc<Self> {
        let copied = bytes.len() > limits::RESPONSE_PIECE;
        Self::tracked(
            connection,
            copied,
            State { rest: bytes, charge: Some(charge), permit, ..State::default() },
        )
    }

    pub(super) fn open(connection: &Arc<Counters>, body: OpenBody, permit: Option<Permit>) -> Arc<Self> {
        let source = Source { body, is_quiet: false, in_flight: None };
        Self::tracked(connection, true, State { source: Some(source), permit, ..State::default() })
    }

    fn tracked(connection: &Arc<Counters>, copied: bool, state: State) -> Arc<Self> {
        let response =
            Arc::new(Self { connection: Arc::clone(connection), copied, state: Mutex::new(state) });
        let weak = Arc::downgrade(&response);
        connection.track(weak);
        response
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Poisoning can be ignored: every update leaves the state consistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn poll_piece(self: &Arc<Self>, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, Unsent>>> {
        let mut state = self.lock();
        if state.evicted {
            return Poll::Ready(Some(Err(Unsent::TooSlow)));
        }
        while state.rest.is_empty() {
            let Some(source) = &mut state.source else { return Poll::Ready(None) };
            let next = source.body.stream().poll_next(context);
            source.is_quiet = next.is_pending();
            match ready!(next) {
                Some(Ok(bytes)) => state.rest = bytes,
                Some(Err(interrupted)) => return Poll::Ready(Some(Err(interrupted.into()))),
                None => state.source = None,
            }
        }
        let length = state.rest.len().min(limits::RESPONSE_PIECE);
        let mut bytes = state.rest.split_to(length);
        if self.copied {
            bytes = Bytes::copy_from_slice(&bytes);
        }
        if state.rest.is_empty() {
            // An empty slice of the response would keep all of it in memory.
            state.rest = Bytes::new();
        }
        state.handed_out += length;
        Poll::Ready(Some(Ok(Bytes::from_owner(Piece { bytes, response: Arc::clone(self) }))))
    }
}

impl PacedResponse for TrackedResponse {
    fn tick(&self) -> Option<u64> {
        let mut state = self.lock();
        let written = state.written;
        if state.handed_out == 0 && state.source.as_ref().is_some_and(|source| source.is_quiet) {
            state.pace.reset(written);
            return None;
        }
        state.pace.tick(written)
    }

    fn is_evicted(&self) -> bool {
        self.lock().evicted
    }

    fn evict(&self) {
        let mut state = self.lock();
        state.evicted = true;
        state.rest = Bytes::new();
        state.source = None;
        let left = state.handed_out;
        if let Some(charge) = &mut state.charge {
            charge.shrink_to(left);
        }
        if let Some(permit) = &mut state.permit {
            permit.shrink_to(units(left));
        }
    }
}

/// A piece of a response; the HTTP library drops it once it is written to the socket.
struct Piece {
    bytes: Bytes,
    response: Arc<TrackedResponse>,
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        let length = self.bytes.len();
        let mut state = self.response.lock();
        state.handed_out -= length;
        state.written += length as u64;
        self.response.connection.add_taken(length as u64);
    }
}

impl http_body::Body for ResponseBody {
    type Data = Bytes;
    type Error = Unsent;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Unsent>>> {
        match self.get_mut() {
            Self::Whole(body) => {
                Pin::new(body).poll_frame(context).map_err(|never: Infallible| match never {})
            }
            Self::Tracked(response) => {
                response.poll_piece(context).map(|piece| piece.map(|piece| piece.map(Frame::data)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(body) => body.is_end_stream(),
            Self::Tracked(response) => {
                let state = response.lock();
                state.rest.is_empty() && state.source.is_none() && !state.evicted
            }
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(body) => body.size_hint(),
            Self::Tracked(response) => {
                let state = response.lock();
                if state.source.is_some() {
                    SizeHint::default()
                } else {
                    SizeHint::with_exact(state.rest.len() as u64)
                }
            }
        }
    }
}
