//! Every limit of the HTTP edge.

use std::time::Duration;

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

/// A client that takes nothing of a response for this long is gone.
pub const STALL_TICKS: u32 = 6;

/// Requests at the same time on one HTTP/2 connection.
pub const H2_STREAMS: u32 = 128;

/// Pause after the system had no file descriptor left, so that the loop does not spin while some are closed.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
