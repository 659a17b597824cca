//! Every limit of the HTTP edge.

use std::time::Duration;

use crate::fair_share::Bounds;

/// Open connections. Each costs a file descriptor and some kilobytes; more wait in the kernel's queue.
pub const MAX_CONNECTIONS: usize = 8192;

/// Connections that the kernel keeps for us while we are busy: a burst of reconnecting clients fits.
pub const BACKLOG: u32 = 1024;

/// Bytes of request line and headers that we accept. DPoP proofs and tokens are the largest honest ones, a few
/// kilobytes.
pub const MAX_HEADER_BYTES: usize = 32 * 1024;

/// What hyper buffers before it gives up with a bare 431. Twice ours, so that ours answers first, in JSON.
pub const HEADER_BUFFER: usize = 2 * MAX_HEADER_BYTES;

/// Header fields; the largest honest requests have some thirty.
pub const MAX_HEADERS: usize = 100;

/// Path and query. A filter in a query string fits; longer ones belong in a body.
pub const MAX_URI_BYTES: usize = 8 * 1024;

/// A body of JSON: lexicons and scripts are tens of kilobytes, and none is ever this large.
pub const JSON_BODY: usize = 1024 * 1024;

/// A body must have arrived completely after this long, however slowly its bytes drip.
pub const BODY_TIME: Duration = Duration::from_secs(30);

/// How often a connection is looked after. The times below are multiples of it.
pub const TICK: Duration = Duration::from_secs(5);

/// A request whose head is not complete after this long is given up, and so is a connection that sends nothing
/// at all. Honest clients send a head in one piece.
pub const HEAD_TICKS: u32 = 3;

/// A connection that has been idle between two requests for this long is closed. Longer than the 60 s after
/// which common proxies drop theirs, so that they do it first and no request is lost on the way.
pub const IDLE_TICKS: u32 = 15;

/// A client that takes less than [`LEAST_RATE`] of its answers over this long is given up.
pub const STALL_TICKS: u32 = 6;

/// Bytes a second that a client has to take of what waits for it: slower links carry no web, and a client that reads a
/// byte at a time holds memory on purpose.
pub const LEAST_RATE: u64 = 16 * 1024;

/// What [`LEAST_RATE`] comes to over [`STALL_TICKS`].
pub const LEAST_TAKEN: u64 = LEAST_RATE * TICK.as_secs() * STALL_TICKS as u64;

/// Bytes that the kernel takes of an answer before the client's window has room for them. By itself it would take
/// megabytes a connection, and hide for a minute how slowly they are read.
pub const UNSENT_BYTES: u32 = 128 * 1024;

/// Answers on one connection up to this many bytes are free: the buffers of the connection are of that size too.
pub const FREE_ANSWER_BYTES: usize = 64 * 1024;

/// The unit in which larger answers take their places, and the pieces in which HTTP/2 sends them.
pub const ANSWER_PIECE: usize = 16 * 1024;

/// Bytes of answers that one HTTP/2 connection may leave unread, beside one answer of any size: a page of records is a
/// megabyte, and browsers read a few at a time.
pub const MAX_UNREAD_PER_CONNECTION: usize = 16 * 1024 * 1024;

/// Bytes of answers that wait for their clients, in units of [`ANSWER_PIECE`].
pub const ANSWERS: Bounds = Bounds {
    // 256 MiB: what the smallest machine that runs this can spare.
    places: 16_384,
    // 32 MiB: four of the largest answers of scripts, or a page of records each for 32 readers.
    per_tenant: 2_048,
    // Waiting answers are in memory too, so that they count like the others: 32 MiB.
    waiting: 2_048,
    waiting_per_tenant: 1_024,
    // An honest client reads what it has within this time.
    patience: Duration::from_secs(5),
};

/// Requests at the same time on one HTTP/2 connection.
pub const H2_STREAMS: u32 = 128;

/// Bytes of one answer that the HTTP/2 library buffers. More gains nothing: it takes the next piece as soon as one is
/// written.
pub const H2_SEND_BUFFER: usize = 2 * ANSWER_PIECE;

/// Pause after the system had no file descriptor left, so that the loop does not spin while some are closed.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
