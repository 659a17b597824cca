//! The settings of the stream: what the operator configures, and the timeouts that tests shorten.

use std::time::Duration;

/// The operator's settings of the stream.
#[derive(Clone, Debug, Default)]
pub struct StreamConfig {
    /// Jetstream servers in order of preference, `ws://`, `wss://` (or `http(s)://`) with or without a path.
    /// Empty: no stream; local writes still reach the index.
    pub urls: Vec<String>,
    /// The zstd dictionary that the servers compress with (`JETSTREAM_ZSTD_DICT` names its file). `None`:
    /// uncompressed frames are requested.
    pub zstd_dictionary: Option<Vec<u8>>,
    /// The number of shards. `None`: one less than the cores, so that the writer has its own.
    pub shards: Option<usize>,
    pub timing: Timing,
}

/// Timeouts and intervals of the stream. Production uses the default.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// Limit for TCP, TLS and the WebSocket upgrade together.
    pub connect_timeout: Duration,
    /// A ping is sent when nothing was received for this long.
    pub ping_after: Duration,
    /// The connection is considered half-open and closed when nothing (no frame, no pong) was received for this long.
    pub silence: Duration,
    /// Shortest wait before reconnecting, however the last connection ended: prevents a hot loop.
    pub backoff_floor: Duration,
    /// Longest wait before reconnecting.
    pub backoff_cap: Duration,
    /// A connection that lasted this long was healthy: the backoff starts over.
    pub healthy_after: Duration,
    /// Time by which the cursor goes back with each connection: events with earlier times may come later, and the clock
    /// and the order of events differ from server to server.
    pub rewind: Duration,
    /// Time for which a server that begins before the cursor is watched at a time, to distinguish a replay from live
    /// events.
    pub replay_window: Duration,
    /// Wait after the tracked collections changed before resubscribing, so that several changes cause one reconnect.
    pub debounce: Duration,
    /// Time that a change may wait for others to share its transaction.
    pub commit_delay: Duration,
    /// Interval at which the cursor is committed while there are no changes.
    pub cursor_interval: Duration,
    /// First wait after a failed commit; doubles up to [`Timing::commit_retry_cap`].
    pub commit_retry: Duration,
    pub commit_retry_cap: Duration,
    /// Interval between two attempts to take the lease that another host holds.
    pub lease_retry: Duration,
    /// The stream is reported as stalled when commits have failed for this long.
    pub stalled_after: Duration,
    /// The stream is reported as stalled when no server was reachable for this long. Longer than
    /// [`Timing::stalled_after`]: the index can still be read, so an upstream restart should not remove this server
    /// from its load balancer.
    pub unreachable_after: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(15),
            ping_after: Duration::from_secs(30),
            silence: Duration::from_mins(1),
            backoff_floor: Duration::from_secs(1),
            backoff_cap: Duration::from_mins(1),
            healthy_after: Duration::from_mins(2),
            rewind: Duration::from_secs(5),
            replay_window: Duration::from_secs(10),
            debounce: Duration::from_millis(300),
            commit_delay: Duration::from_millis(20),
            cursor_interval: Duration::from_secs(2),
            commit_retry: Duration::from_millis(100),
            commit_retry_cap: Duration::from_secs(5),
            lease_retry: Duration::from_secs(2),
            stalled_after: Duration::from_secs(5),
            unreachable_after: Duration::from_mins(2),
        }
    }
}
