//! Reading a request's body, within its limit and in time.

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

/// A body that is still on its way.
#[derive(Debug)]
pub struct Unread(Option<Incoming>);

impl Unread {
    pub(super) fn new(body: Incoming) -> Self {
        Self(if body.is_end_stream() { None } else { Some(body) })
    }

    /// The body as it comes in, never held whole. How it ended is told beside it.
    ///
    /// # Errors
    /// 413 when its announced length is above `limit` bytes.
    pub fn stream(self, limit: usize) -> Result<(Streamed, Arrival), Error> {
        if self.0.as_ref().is_some_and(|body| body.size_hint().lower() > limit as u64) {
            return Err(too_large(limit));
        }
        let arrival = Arrival { limit, end: Arc::default() };
        Ok((Streamed { body: self.0, left: limit, end: Arc::clone(&arrival.end) }, arrival))
    }

    /// No body at all, for tests and for requests made here.
    pub fn none() -> Self {
        Self(None)
    }

    /// The whole body, which is JSON.
    ///
    /// # Errors
    /// As [`Self::read_binary`], and 400 for a body with U+0000 in it: PostgreSQL can't store it.
    pub async fn read(self, limit: usize) -> Result<Bytes, Error> {
        let body = self.read_binary(limit).await?;
        if nul::in_json(&body) { Err(nul::refused("the request body")) } else { Ok(body) }
    }

    /// The whole body, whatever its bytes are.
    ///
    /// # Errors
    /// 413 above `limit` bytes (before reading, when the length is announced), 408 when it does not arrive in
    /// time, 400 when the client breaks off.
    pub async fn read_binary(self, limit: usize) -> Result<Bytes, Error> {
        let Some(body) = self.0 else { return Ok(Bytes::new()) };
        if body.size_hint().lower() > limit as u64 {
            return Err(too_large(limit));
        }
        match tokio::time::timeout(limits::BODY_TIME, Limited::new(body, limit).collect()).await {
            Ok(Ok(body)) => Ok(body.to_bytes()),
            Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large(limit)),
            Ok(Err(error)) => Err(Error::bad_request(format!("the request body broke off: {error}"))),
            Err(_) => Err(Error::new(StatusCode::REQUEST_TIMEOUT, "the request body took too long")),
        }
    }
}

/// A body on its way through. It ends with an error at its limit.
#[derive(Debug)]
pub struct Streamed {
    body: Option<Incoming>,
    left: usize,
    end: Arc<AtomicU8>,
}

/// How a streamed body ended.
#[derive(Debug)]
pub struct Arrival {
    limit: usize,
    end: Arc<AtomicU8>,
}

const TOO_LARGE: u8 = 1;
const BROKEN_OFF: u8 = 2;

impl Arrival {
    /// What the sender did wrong, if anything.
    ///
    /// # Errors
    /// 413 when there was too much, 400 when it broke off.
    pub fn check(&self) -> Result<(), Error> {
        match self.end.load(Ordering::Relaxed) {
            TOO_LARGE => Err(too_large(self.limit)),
            BROKEN_OFF => Err(Error::bad_request("the request body broke off")),
            _ => Ok(()),
        }
    }
}

impl http_body::Body for Streamed {
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
        let Some(left) = self.left.checked_sub(length) else {
            self.end.store(TOO_LARGE, Ordering::Relaxed);
            return Poll::Ready(Some(Err("the body is larger than its limit".into())));
        };
        self.left = left;
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
