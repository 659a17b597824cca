//! Bounds the memory of responses that clients have not read yet.
//!
//! A response stays in memory until its client has read it, and a client may read slowly on purpose. Unread bytes are
//! bounded for the whole server and per client address by a fair pool, and per connection by a counter. Up to
//! [`limits::FREE_RESPONSE_BYTES`] per connection need no reservation. On HTTP/1.1, where a connection has one response
//! at a time, such small responses are not even counted.

mod body;
mod pace;
#[cfg(test)]
mod tests;

use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::FutureExt as _;
use http_body::Body as _;
use http_body_util::{BodyExt as _, Full};

use super::monitor::Counters;
use super::{Body, Response, limits};
use crate::fair_share::{FairPool, Place, Tenant};

pub(super) use body::{ResponseBody, TrackedResponse};
pub(super) use pace::Pace;

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
    place: Option<Place>,
    /// HTTP/2 only.
    charge: Option<Charge>,
}

impl ResponseMemory {
    pub(super) fn new() -> Self {
        Self { pool: FairPool::new("answers", limits::RESPONSE_MEMORY) }
    }

    /// Whether to refuse a request before it runs, because its response could not be kept: when the connection has too
    /// much unread, and for requests that change something also when the client's share is used up, because after the
    /// change it would be too late to refuse.
    pub(super) fn should_refuse(&self, client: IpAddr, connection: &Counters, changes: bool) -> bool {
        connection.unread() >= limits::MAX_UNREAD_PER_CONNECTION
            || (changes && self.pool.is_full_for(&Tenant::of_address(client)))
    }

    /// Reserves memory for a response; waits until enough of other responses has been read.
    pub(super) async fn reserve(
        &self,
        client: IpAddr,
        connection: &Arc<Counters>,
        response: &Response,
    ) -> Result<Reservation, Overloaded> {
        let length = length(response.body());
        if !connection.is_h2() {
            if length <= limits::FREE_RESPONSE_BYTES {
                return Ok(Reservation::default());
            }
            return Ok(Reservation { place: Some(self.enter_pool(client, length).await?), charge: None });
        }
        let charge = Charge::new(connection, length);
        let unread = connection.unread();
        if unread <= limits::FREE_RESPONSE_BYTES {
            return Ok(Reservation { place: None, charge: Some(charge) });
        }
        if length > limits::FREE_RESPONSE_BYTES
            && unread > length
            && unread > limits::MAX_UNREAD_PER_CONNECTION
        {
            return Err(Overloaded);
        }
        Ok(Reservation { place: Some(self.enter_pool(client, length).await?), charge: Some(charge) })
    }

    #[cfg(test)]
    pub(super) fn reserved_units(&self) -> usize {
        self.pool.used()
    }

    async fn enter_pool(&self, client: IpAddr, length: usize) -> Result<Place, Overloaded> {
        self.pool.enter_many(&Tenant::of_address(client), units(length)).await.map_err(|_| Overloaded)
    }
}

impl Reservation {
    /// Wraps the body for sending. The reservation is released when the last byte has been written to the socket.
    pub(super) fn send(self, connection: &Arc<Counters>, body: Body) -> ResponseBody {
        let length = length(&body);
        if length == 0 {
            return ResponseBody::Whole(body);
        }
        if connection.is_h2() {
            let charge = self.charge.unwrap_or_else(|| Charge::new(connection, length));
            return ResponseBody::Tracked(TrackedResponse::new(
                connection,
                into_bytes(body),
                charge,
                self.place,
            ));
        }
        match self.place {
            None => ResponseBody::Whole(body),
            Some(place) => {
                let bytes = into_bytes(body);
                ResponseBody::Whole(Full::new(Bytes::from_owner(ReservedBytes { bytes, _place: place })))
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
    _place: Place,
}

impl AsRef<[u8]> for ReservedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

fn units(bytes: usize) -> usize {
    bytes.div_ceil(limits::RESPONSE_PIECE)
}

fn length(body: &Body) -> usize {
    // All bodies are in memory, so their length is exact.
    body.size_hint().exact().unwrap_or_default() as usize
}

fn into_bytes(body: Body) -> Bytes {
    // A body in memory is ready at once.
    let collected = body.collect().now_or_never().map(|Ok(collected)| collected.to_bytes());
    collected.unwrap_or_default()
}
