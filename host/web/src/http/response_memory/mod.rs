//! Bounds the memory of responses that clients have not read yet.
//!
//! A response stays in memory until its client has read it, and a client may read slowly on purpose. Unread bytes are
//! bounded for the whole server and per client address by a fair pool, and per connection by a counter. Up to
//! [`limits::FREE_RESPONSE_BYTES`] per connection need no reservation. On HTTP/1.1, where a connection has one response
//! at a time, such small responses are not even counted.

mod body;
#[cfg(test)]
mod tests;

use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::Full;

use super::monitor::Counters;
use super::{Body, limits};
use crate::fair_share::{FairPool, Permit, Tenant};

pub(super) use body::ResponseBody;
use body::TrackedResponse;

/// The memory for unread responses of the whole server.
#[derive(Debug)]
pub(super) struct ResponseMemory {
    pool: FairPool,
}

/// The response can't be kept: too much is unread by this client, or by all clients together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Overloaded;

/// Memory reserved for one response.
#[derive(Debug, Default)]
pub(super) struct Reservation {
    permit: Option<Permit>,
    /// HTTP/2 only.
    charge: Option<Charge>,
}

impl ResponseMemory {
    pub(super) fn new(bytes: usize) -> Self {
        Self { pool: FairPool::new("answers", limits::response_memory(bytes)) }
    }

    /// Whether to refuse a request before it runs, because its response could not be kept: when the connection has too
    /// much unread, and for requests that change something also when the client's share is used up, because after the
    /// change it would be too late to refuse.
    pub(super) fn should_refuse(&self, client: IpAddr, connection: &Counters, changes: bool) -> bool {
        connection.unread() >= limits::MAX_UNREAD_PER_CONNECTION
            || (changes && self.pool.is_full_for(&Tenant::of_address(client)))
    }

    /// Reserves memory for a response of `length` bytes; waits until enough of other responses has been read. Without a
    /// length it is an open one.
    pub(super) async fn reserve(
        &self,
        client: IpAddr,
        connection: &Arc<Counters>,
        length: Option<usize>,
    ) -> Result<Reservation, Overloaded> {
        let Some(length) = length else {
            let permit = self.enter_pool(client, limits::EVENT_STREAM_BYTES).await?;
            return Ok(Reservation { permit: Some(permit), charge: None });
        };
        if !connection.is_h2() {
            if length <= limits::FREE_RESPONSE_BYTES {
                return Ok(Reservation::default());
            }
            return Ok(Reservation { permit: Some(self.enter_pool(client, length).await?), charge: None });
        }
        let charge = Charge::new(connection, length);
        let unread = connection.unread();
        if unread <= limits::FREE_RESPONSE_BYTES {
            return Ok(Reservation { permit: None, charge: Some(charge) });
        }
        if length > limits::FREE_RESPONSE_BYTES
            && unread > length
            && unread > limits::MAX_UNREAD_PER_CONNECTION
        {
            return Err(Overloaded);
        }
        Ok(Reservation { permit: Some(self.enter_pool(client, length).await?), charge: Some(charge) })
    }

    #[cfg(test)]
    pub(super) fn reserved_units(&self) -> usize {
        self.pool.used()
    }

    async fn enter_pool(&self, client: IpAddr, length: usize) -> Result<Permit, Overloaded> {
        self.pool.enter_many(&Tenant::of_address(client), units(length)).await.map_err(|_| Overloaded)
    }
}

impl Reservation {
    /// Wraps the body for sending. The reservation is released when the last byte has been written to the socket.
    pub(super) fn send(self, connection: &Arc<Counters>, body: Body) -> ResponseBody {
        let bytes = match body {
            Body::Whole(bytes) => bytes,
            Body::Open(body) => {
                return ResponseBody::Tracked(TrackedResponse::open(connection, body, self.permit));
            }
        };
        if bytes.is_empty() {
            return ResponseBody::Whole(Full::default());
        }
        if connection.is_h2() {
            let charge = self.charge.unwrap_or_else(|| Charge::new(connection, bytes.len()));
            return ResponseBody::Tracked(TrackedResponse::new(connection, bytes, charge, self.permit));
        }
        match self.permit {
            None => ResponseBody::Whole(Full::new(bytes)),
            Some(permit) => {
                ResponseBody::Whole(Full::new(Bytes::from_owner(ReservedBytes { bytes, _permit: permit })))
            }
        }
    }
}

/// Bytes of a response that are counted as unread on its connection; dropping it subtracts them.
#[derive(Debug)]
struct Charge {
    connection: Arc<Counters>,
    bytes: usize,
}

impl Charge {
    fn new(connection: &Arc<Counters>, bytes: usize) -> Self {
        connection.add_unread(bytes);
        Self { connection: Arc::clone(connection), bytes }
    }

    fn shrink_to(&mut self, bytes: usize) {
        let spare = self.bytes.saturating_sub(bytes);
        self.bytes -= spare;
        self.connection.sub_unread(spare);
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.connection.sub_unread(self.bytes);
    }
}

/// Bytes that keep their reservation for as long as hyper keeps any part of them.
struct ReservedBytes {
    bytes: Bytes,
    _permit: Permit,
}

impl AsRef<[u8]> for ReservedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

fn units(bytes: usize) -> usize {
    bytes.div_ceil(limits::RESPONSE_PIECE)
}
