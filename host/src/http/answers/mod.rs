//! Answers on their way to clients.
//!
//! An answer is whole in memory until its client has read it, and clients read as slowly as they like. So the bytes of
//! answers that wait are bounded: for the whole server and per address by a fair pool, per connection by a counter. Up to
//! [`limits::FREE_ANSWER_BYTES`] a connection they are free, and on HTTP/1.1, where a connection has one answer at a
//! time, they cost nothing at all.

mod outgoing;
mod pace;
#[cfg(test)]
mod tests;

use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::FutureExt as _;
use http_body::Body as _;
use http_body_util::{BodyExt as _, Full};

use super::watch::Counters;
use super::{Body, Response, limits};
use crate::fair_share::{FairPool, Place, Tenant};

pub(super) use outgoing::{Outgoing, Tracked};
pub(super) use pace::Pace;

/// The bytes of all answers that wait.
#[derive(Debug)]
pub(super) struct Answers {
    pool: FairPool,
}

/// There is no room for the answer: too much waits for this client, or for all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NoRoom;

/// The room of one answer.
#[derive(Debug, Default)]
pub(super) struct Room {
    place: Option<Place>,
    /// HTTP/2 only.
    charge: Option<Charge>,
}

impl Answers {
    pub(super) fn new() -> Self {
        Self { pool: FairPool::new("answers", limits::ANSWERS) }
    }

    /// Whether a request should be refused before it is carried out, because its answer would find no room. Asked for
    /// all requests of a connection that reads nothing, and for every request that changes something: after the change
    /// it would be too late to refuse it.
    pub(super) fn refuses(&self, client: IpAddr, connection: &Counters, changes: bool) -> bool {
        connection.unread() >= limits::MAX_UNREAD_PER_CONNECTION
            || (changes && self.pool.is_full_for(&Tenant::of_address(client)))
    }

    /// Room for an answer. Waits until the client, or others, have read some of theirs.
    pub(super) async fn room(
        &self,
        client: IpAddr,
        connection: &Arc<Counters>,
        response: &Response,
    ) -> Result<Room, NoRoom> {
        let length = length(response.body());
        if !connection.is_h2() {
            if length <= limits::FREE_ANSWER_BYTES {
                return Ok(Room::default());
            }
            return Ok(Room { place: Some(self.place(client, length).await?), charge: None });
        }
        let charge = Charge::new(connection, length);
        let unread = connection.unread();
        if unread <= limits::FREE_ANSWER_BYTES {
            return Ok(Room { place: None, charge: Some(charge) });
        }
        if length > limits::FREE_ANSWER_BYTES && unread > length && unread > limits::MAX_UNREAD_PER_CONNECTION
        {
            return Err(NoRoom);
        }
        Ok(Room { place: Some(self.place(client, length).await?), charge: Some(charge) })
    }

    #[cfg(test)]
    pub(super) fn held(&self) -> usize {
        self.pool.used()
    }

    async fn place(&self, client: IpAddr, length: usize) -> Result<Place, NoRoom> {
        self.pool.enter_many(&Tenant::of_address(client), units(length)).await.map_err(|_| NoRoom)
    }
}

impl Room {
    /// The body as the connection sends it; the room is given back when its last byte was written.
    pub(super) fn send(self, connection: &Arc<Counters>, body: Body) -> Outgoing {
        let length = length(&body);
        if length == 0 {
            return Outgoing::Whole(body);
        }
        if connection.is_h2() {
            let charge = self.charge.unwrap_or_else(|| Charge::new(connection, length));
            return Outgoing::Tracked(Tracked::new(connection, into_bytes(body), charge, self.place));
        }
        match self.place {
            None => Outgoing::Whole(body),
            Some(place) => {
                let bytes = into_bytes(body);
                Outgoing::Whole(Full::new(Bytes::from_owner(Placed { bytes, _place: place })))
            }
        }
    }
}

/// Bytes of an answer that count as unread by the client of a connection.
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

/// Bytes that keep their place as long as hyper keeps any part of them.
struct Placed {
    bytes: Bytes,
    _place: Place,
}

impl AsRef<[u8]> for Placed {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

fn units(bytes: usize) -> usize {
    bytes.div_ceil(limits::ANSWER_PIECE)
}

fn length(body: &Body) -> usize {
    // All bodies are whole, so that they know.
    body.size_hint().exact().unwrap_or_default() as usize
}

fn into_bytes(body: Body) -> Bytes {
    // A whole body is there at once.
    let collected = body.collect().now_or_never().map(|Ok(collected)| collected.to_bytes());
    collected.unwrap_or_default()
}
