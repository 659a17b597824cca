//! Polls until a condition is true.

use std::time::Duration;

use tokio::time::{Instant, sleep};

/// Far longer than anything here takes on a busy two-core machine, so a timeout means a defect.
const TIMEOUT: Duration = Duration::from_mins(1);
/// Short compared with the time waited for, long compared with the request that checks.
const POLL_INTERVAL: Duration = Duration::from_millis(25);

/// Calls `look` until it returns a value. Panics with `what` and the last error after [`TIMEOUT`].
pub async fn until<T, F>(what: &str, mut look: impl FnMut() -> F) -> T
where
    F: Future<Output = Result<T, String>>,
{
    let deadline = Instant::now() + TIMEOUT;
    loop {
        let reason = match look().await {
            Ok(value) => return value,
            Err(reason) => reason,
        };
        assert!(Instant::now() < deadline, "timed out waiting until {what}; last: {reason}");
        sleep(POLL_INTERVAL).await;
    }
}
