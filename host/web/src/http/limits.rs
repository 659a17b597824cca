//! The limits of the HTTP server.

use std::time::Duration;

use crate::fair_share::Bounds;

/// Open connections. Each costs a file descriptor and a few kilobytes; further ones wait in the kernel's queue.
pub const MAX_CONNECTIONS: usize = 8192;

/// Connections that the kernel queues until they are accepted: a burst of reconnecting clients fits.
pub const BACKLOG: u32 = 1024;

/// Bytes of request line and headers. DPoP proofs and tokens, the largest common ones, take a few kilobytes.
pub const MAX_HEADER_BYTES: usize = 32 * 1024;

/// Bytes that hyper buffers before it answers 431 without a body. Twice our limit, so that our check answers first, in
/// JSON.
pub const HEADER_BUFFER: usize = 2 * MAX_HEADER_BYTES;

/// Header fields; ordinary requests have at most about thirty.
pub const MAX_HEADERS: usize = 100;

/// Bytes of path and query. A filter in a query string fits; longer input belongs in a body.
pub const MAX_URI_BYTES: usize = 8 * 1024;

/// Bytes of a JSON body. Lexicons and scripts take tens of kilobytes.
pub const JSON_BODY: usize = 1024 * 1024;

/// Time for a request body to arrive completely.
pub const BODY_TIME: Duration = Duration::from_secs(30);

/// Time for the body of a refused request to arrive, which is thrown away. A client that is slower sees its connection
/// close, perhaps before it has read the answer.
pub const DISCARD_TIME: Duration = Duration::from_secs(5);

/// The longest pause in the body of a refused request. A client that has read the answer sends no more.
pub const DISCARD_PAUSE: Duration = Duration::from_secs(1);

/// Bytes of the body of a refused request that are thrown away: twice the largest body that any route accepts.
pub const DISCARD_BYTES: usize = 128 * 1024 * 1024;

/// Interval of the checks of a connection's state (`monitor`). The times below are multiples of it.
pub const TICK: Duration = Duration::from_secs(5);

/// A connection is closed when a request's head is not complete after this long, or when it sends nothing at all.
/// Ordinary clients send a head in one piece.
pub const HEAD_TICKS: u32 = 3;

/// A connection that is idle between two requests for this long is closed. Longer than the 60 s after which common
/// proxies close theirs, so that the proxy closes first and no request is lost.
pub const IDLE_TICKS: u32 = 15;

/// A connection whose client reads slower than [`MIN_READ_RATE`] over this long is closed.
pub const STALL_TICKS: u32 = 6;

/// Bytes a second that a client has to read while response data waits for it. A client that reads slower only keeps
/// memory in use.
pub const MIN_READ_RATE: u64 = 16 * 1024;

/// Bytes at [`MIN_READ_RATE`] over [`STALL_TICKS`].
pub const MIN_READ_BYTES: u64 = MIN_READ_RATE * TICK.as_secs() * STALL_TICKS as u64;

/// Unsent bytes that the kernel buffers for a connection (`TCP_NOTSENT_LOWAT`). By default it buffers megabytes, which
/// hides for a minute how slowly the client reads.
pub const UNSENT_BYTES: u32 = 128 * 1024;

/// Unread response bytes on one connection that need no reservation: about the size of the connection's own buffers.
pub const FREE_RESPONSE_BYTES: usize = 64 * 1024;

/// Bytes in one unit of [`response_memory`], and in one piece of an HTTP/2 response.
pub const RESPONSE_PIECE: usize = 16 * 1024;

/// Response bytes that one HTTP/2 connection may leave unread, in addition to one response of any size: a page of
/// records takes up to a megabyte, and browsers read a few at a time.
pub const MAX_UNREAD_PER_CONNECTION: usize = 16 * 1024 * 1024;

/// Bytes of unread responses, unless configured: affordable on a machine of 1 GiB.
pub const RESPONSE_MEMORY: usize = 256 << 20;

/// Bytes of unread responses of one client address: four of the largest responses of scripts, or 32 pages of records.
pub const RESPONSE_MEMORY_PER_ADDRESS: usize = 32 << 20;

/// The bounds of a pool for `bytes` of unread responses, in units of [`RESPONSE_PIECE`]. Tenants are client addresses.
pub const fn response_memory(bytes: usize) -> Bounds {
    let permits = bytes / RESPONSE_PIECE;
    let share = RESPONSE_MEMORY_PER_ADDRESS / RESPONSE_PIECE;
    // Responses that wait for a reservation are in memory too: 32 MiB, or a quarter of a smaller pool. A tenant may have
    // half of that, which in a pool of 64 MiB is one of the largest responses.
    let waiting = if share < permits / 4 { share } else { permits / 4 };
    Bounds {
        permits,
        per_tenant: if share < permits / 2 { share } else { permits / 2 },
        waiting,
        waiting_per_tenant: waiting / 2,
        // An ordinary client reads its earlier responses within this time.
        max_wait: Duration::from_secs(5),
    }
}

/// Time after which a comment is sent on an event stream without messages (admin-api.md §12.4). Common proxies close a
/// connection after 60 s without a byte.
pub const KEEPALIVE: Duration = Duration::from_secs(15);

/// Bytes that an event stream may have in the buffers of its connection, which it reserves for as long as it is open.
pub const EVENT_STREAM_BYTES: usize = HEADER_BUFFER;

/// Concurrent requests on one HTTP/2 connection.
pub const H2_STREAMS: u32 = 128;

/// Bytes of one response that the HTTP/2 library buffers. More gains nothing: it takes the next piece as soon as one is
/// written.
pub const H2_SEND_BUFFER: usize = 2 * RESPONSE_PIECE;

/// Pause of the accept loop when no file descriptor is left, so that it does not spin.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
