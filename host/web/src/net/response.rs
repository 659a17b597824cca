//! Responses of other servers, whose bodies are bounded while they arrive.

use std::fmt;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use futures_util::future::BoxFuture;
use http::{HeaderMap, StatusCode};
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use super::error::{NetError, from_reqwest};
use super::pace;

/// Memory for the bodies of responses.
pub trait BodyMemory: fmt::Debug + Send + Sync {
    /// Takes `bytes` more, and may wait for them. `false` when there are none.
    fn take(&self, bytes: usize) -> BoxFuture<'_, bool>;
}

/// A complete response.
#[derive(Clone, Debug)]
pub struct FetchedResponse {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

/// A response whose body arrives while it is read.
#[derive(Debug)]
pub struct ArrivingResponse {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub(super) body: reqwest::Response,
    /// Bytes of the body so far, after decompression.
    pub(super) arrived: usize,
    pub(super) max_bytes: usize,
    /// The time at which the head of the response of a paced client arrived.
    pub(super) paced_since: Option<Instant>,
    pub(super) memory: Option<Arc<dyn BodyMemory>>,
}

impl ArrivingResponse {
    /// The next part of the body; `None` at its end.
    ///
    /// # Errors
    /// When the connection fails, or the response exceeds the limits of the request.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, NetError> {
        let chunk = match self.paced_since {
            Some(since) => {
                let until = since + pace::max_wait(self.arrived);
                tokio::time::timeout_at(until, self.body.chunk()).await.map_err(|_| NetError::Timeout)?
            }
            None => self.body.chunk().await,
        };
        let chunk = chunk.map_err(from_reqwest)?;
        self.arrived += chunk.as_ref().map_or(0, Bytes::len);
        if self.arrived > self.max_bytes {
            return Err(NetError::TooLarge(self.max_bytes));
        }
        if let (Some(memory), Some(chunk)) = (&self.memory, &chunk)
            && !memory.take(chunk.len()).await
        {
            return Err(NetError::NoMemory);
        }
        Ok(chunk)
    }

    /// Reads the rest of the body.
    ///
    /// # Errors
    /// As [`Self::chunk`].
    pub async fn complete(mut self) -> Result<FetchedResponse, NetError> {
        let mut body = BytesMut::new();
        while let Some(chunk) = self.chunk().await? {
            body.extend_from_slice(&chunk);
        }
        Ok(FetchedResponse { status: self.status, headers: self.headers, body: body.freeze() })
    }
}

impl FetchedResponse {
    /// The response as one that arrives.
    pub(super) fn into_reqwest(self) -> reqwest::Response {
        let mut response = http::Response::new(self.body);
        *response.status_mut() = self.status;
        *response.headers_mut() = self.headers;
        response.into()
    }

    /// Parses the body of a successful response.
    ///
    /// # Errors
    /// [`NetError::Status`] for another status than 2xx, [`NetError::Malformed`] when the body is not such JSON.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, NetError> {
        if !self.status.is_success() {
            return Err(NetError::Status(self.status));
        }
        serde_json::from_slice(&self.body).map_err(|error| NetError::Malformed(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use std::future::ready;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures_util::FutureExt as _;
    use http::Method;

    use super::*;
    use belvedere_standins::trickle::Trickle;

    use crate::net::testing::loopback;
    use crate::net::tests::LIMITS;

    /// Counts the bytes that are taken, and has `free` more.
    #[derive(Debug)]
    struct Counted {
        taken: AtomicUsize,
        free: usize,
    }

    impl BodyMemory for Counted {
        fn take(&self, bytes: usize) -> BoxFuture<'_, bool> {
            let taken = self.taken.fetch_add(bytes, Ordering::SeqCst) + bytes;
            ready(taken <= self.free).boxed()
        }
    }

    #[tokio::test]
    async fn a_body_takes_memory_when_it_arrives() {
        let mut trickle = Trickle::start(900).await;
        let memory = Arc::new(Counted { taken: 0.into(), free: 20 });
        let client = loopback().in_memory(memory.clone());
        let url = format!("http://{}/", trickle.address());
        let mut response = client.open(Method::GET, &url, HeaderMap::new(), None, LIMITS).await.unwrap();
        trickle.requested().await;
        assert_eq!(memory.taken.load(Ordering::SeqCst), 0, "only the head is there");
        for sent in [10, 20] {
            trickle.send(10).await;
            response.chunk().await.unwrap();
            assert_eq!(memory.taken.load(Ordering::SeqCst), sent);
        }
        trickle.send(10).await;
        assert!(matches!(response.chunk().await, Err(NetError::NoMemory)));
    }
}
