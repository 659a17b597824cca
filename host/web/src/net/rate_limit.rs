//! The time that a server asks its callers to wait.

use std::time::Duration;

use http::HeaderMap;
use http::header::RETRY_AFTER;

use belvedere_base::clock::Timestamp;

/// Longest wait that a server can ask for.
pub const MAX_ASKED_WAIT: Duration = Duration::from_mins(2);

/// The wait after a 429 that names none.
pub const RATE_LIMIT_WAIT: Duration = Duration::from_secs(5);

/// Values of `RateLimit-Reset` from here on are unix seconds, as atproto servers send; smaller ones are seconds from
/// now, as the IETF draft defines.
const FIRST_UNIX_RESET: i64 = 1_000_000_000;

/// The time that a server asks to wait: `RateLimit-Reset`, else `Retry-After` in seconds or as a date (RFC 9110
/// §10.2.3). From one second to [`MAX_ASKED_WAIT`].
pub fn asked_wait(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    asked_wait_up_to(MAX_ASKED_WAIT, headers, now)
}

/// Like [`asked_wait`], from one second to `max`.
pub fn asked_wait_up_to(max: Duration, headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    let until = |at: i64| at.saturating_sub(now.as_seconds());
    let reset = text("ratelimit-reset").and_then(|value| value.parse().ok());
    let reset = reset.map(|value: i64| if value >= FIRST_UNIX_RESET { until(value) } else { value });
    let seconds = reset.or_else(|| {
        let value = text(RETRY_AFTER.as_str())?;
        let date = || jiff::fmt::rfc2822::parse(value).ok().map(|date| until(date.timestamp().as_second()));
        value.parse().ok().or_else(date)
    })?;
    let seconds = u64::try_from(seconds.max(1)).unwrap_or(1);
    Some(Duration::from_secs(seconds).min(max))
}
