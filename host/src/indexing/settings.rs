//! What the operator can set about the stream, and the times that tests shorten.

use std::time::Duration;

/// The stream's part of the configuration.
#[derive(Clone, Debug, Default)]
pub struct StreamConfig {
    /// Jetstream servers in order of preference, `ws://`, `wss://` (or `http(s)://`) with or without a path.
    /// Empty: no stream; local writes still reach the index.
    pub urls: Vec<String>,
    /// The zstd dictionary that the servers compress with (`JETSTREAM_ZSTD_DICT` names its file). `None`: frames
    /// are asked for uncompressed.
    pub zstd_dictionary: Option<Vec<u8>>,
    /// Tasks that check records. `None`: one less than the cores, so that the writer has its own.
    pub shards: Option<usize>,
    pub timing: Timing,
}

/// How long the stream waits for what. The default is what runs in production.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// TCP, TLS and the upgrade together.
    pub connect_timeout: Duration,
    /// After this much silence we ping.
    pub ping_after: Duration,
    /// After this much silence (no frame, no pong) the connection is taken for half-open and given up.
    pub silence: Duration,
    /// Shortest wait before a new connection, however the last one ended: no hot loop.
    pub backoff_floor: Duration,
    /// Longest wait.
    pub backoff_cap: Duration,
    /// A connection that lasted this long was healthy: the wait starts over.
    pub healthy_after: Duration,
    /// How far the cursor goes back on another server, whose clock and order of arrival differ.
    pub rewind: Duration,
    /// How long a change of the tracked collections may settle before the subscription follows.
    pub debounce: Duration,
    /// How long a change may wait for company in its transaction.
    pub commit_delay: Duration,
    /// How often the cursor is committed while no change comes.
    pub cursor_interval: Duration,
    /// First wait after a failed commit; doubles up to [`Timing::commit_retry_cap`].
    pub commit_retry: Duration,
    pub commit_retry_cap: Duration,
    /// Between two attempts to get the lease that another host has.
    pub lease_retry: Duration,
    /// Unable to commit for this long is reported as stalled.
    pub stalled_after: Duration,
    /// Without any server for this long is reported as stalled. Longer: what is indexed can still be read, so one
    /// upstream restart should not take this server out of its load balancer.
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
