//! Reads request bodies, whole or as a stream, within limits of size and time.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::StatusCode;
use http_body::{Body as _, Frame, SizeHint};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Incoming;

use super::{Error, limits, nul};

/// A request body that has not been read yet. One that is dropped unread, because the request was refused, is read and
/// thrown away: if the connection were closed before, the client would fail to send and never see the answer (RFC 9112
/// section 9.6).
#[derive(Debug)]
pub struct UnreadBody(Option<Incoming>);

impl UnreadBody {
    pub(super) fn new(body: Incoming) -> Self {
        Self(if body.is_end_stream() { None } else { Some(body) })
    }

    /// The body as a stream that is never buffered whole, and a handle that reports how the stream ended.
    ///
    /// # Errors
    /// 413 when its `content-length` is above `limit` bytes.
    pub fn stream(mut self, limit: usize) -> Result<(BodyStream, StreamOutcome), Error> {
        if self.0.as_ref().is_some_and(|body| body.size_hint().lower() > limit as u64) {
            return Err(too_large(limit));
        }
        let outcome = StreamOutcome { limit, end: Arc::default() };
        Ok((BodyStream { body: self.0.take(), remaining: limit, end: Arc::clone(&outcome.end) }, outcome))
    }

    /// An empty body, for tests and for requests that are made in this process.
    pub fn none() -> Self {
        Self(None)
    }

    /// Reads the whole body, which has to be JSON.
    ///
    /// # Errors
    /// As [`Self::read_binary`], and 400 for a body that contains U+0000 ([`nul`]).
    pub async fn read(self, limit: usize) -> Result<Bytes, Error> {
        let body = self.read_binary(limit).await?;
        if nul::in_json(&body) { Err(nul::refused("the request body")) } else { Ok(body) }
    }

    /// Reads the whole body, of any bytes.
    ///
    /// # Errors
    /// 413 above `limit` bytes (before reading, when `content-length` says so), 408 when it does not arrive within
    /// [`limits::BODY_TIME`], 400 when the client breaks off.
    pub async fn read_binary(mut self, limit: usize) -> Result<Bytes, Error> {
        let Some(body) = &mut self.0 else { return Ok(Bytes::new()) };
        if body.size_hint().lower() > limit as u64 {
            return Err(too_large(limit));
        }
        let read = tokio::time::timeout(limits::BODY_TIME, Limited::new(body, limit).collect()).await;
        let error = match read {
            Ok(Err(error)) if error.is::<LengthLimitError>() => return Err(too_large(limit)),
            Ok(Ok(body)) => {
                self.0 = None;
                return Ok(body.to_bytes());
            }
            Ok(Err(error)) => Error::bad_request(format!("the request body broke off: {error}")),
            Err(_) => Error::new(StatusCode::REQUEST_TIMEOUT, "the request body took too long"),
        };
        self.0 = None;
        Err(error)
    }
}

impl Drop for UnreadBody {
    fn drop(&mut self) {
        if let Some(body) = self.0.take()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            drop(runtime.spawn(tokio::time::timeout(limits::DISCARD_TIME, discard(body))));
        }
    }
}

/// Reads a body and throws it away.
async fn discard(mut body: Incoming) {
    let mut left = limits::DISCARD_BYTES;
    while let Ok(Some(Ok(frame))) = tokio::time::timeout(limits::DISCARD_PAUSE, body.frame()).await {
        let length = frame.data_ref().map_or(0, Bytes::len);
        let Some(rest) = left.checked_sub(length) else { return };
        left = rest;
    }
}

/// A request body that is forwarded while it arrives. It fails when it exceeds its limit.
#[derive(Debug)]
pub struct BodyStream {
    body: Option<Incoming>,
    remaining: usize,
    end: Arc<AtomicU8>,
}

/// Reports how a [`BodyStream`] ended.
#[derive(Debug)]
pub struct StreamOutcome {
    limit: usize,
    end: Arc<AtomicU8>,
}

const TOO_LARGE: u8 = 1;
const BROKEN_OFF: u8 = 2;

impl StreamOutcome {
    /// Returns the error response for a stream that the client ended wrongly. To be called after the stream has ended.
    ///
    /// # Errors
    /// 413 when the body was too large, 400 when it broke off.
    pub fn check(&self) -> Result<(), Error> {
        match self.end.load(Ordering::Relaxed) {
            TOO_LARGE => Err(too_large(self.limit)),
            BROKEN_OFF => Err(Error::bad_request("the request body broke off")),
            _ => Ok(()),
        }
    }
}

impl http_body::Body for BodyStream {
    type Data = Bytes;
    type Error = Box<dyn std::error::Error + Send + Sync>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let Some(body) = &mut self.body else { return Poll::Ready(None) };
        let frame = match ready!(Pin::new(body).poll_frame(context)) {
            None => return Poll::Ready(None),
            Some(Ok(frame)) => frame,
            Some(Err(error)) => {
                self.end.store(BROKEN_OFF, Ordering::Relaxed);
                return Poll::Ready(Some(Err(error.into())));
            }
        };
        let length = frame.data_ref().map_or(0, Bytes::len);
        let Some(remaining) = self.remaining.checked_sub(length) else {
            self.end.store(TOO_LARGE, Ordering::Relaxed);
            return Poll::Ready(Some(Err("the body is larger than its limit".into())));
        };
        self.remaining = remaining;
        Poll::Ready(Some(Ok(frame)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(http_body::Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(|| SizeHint::with_exact(0), http_body::Body::size_hint)
    }
}

fn too_large(limit: usize) -> Error {
    Error::new(StatusCode::PAYLOAD_TOO_LARGE, format!("the request body is larger than {limit} bytes"))
}
