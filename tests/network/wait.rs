//! Waiting for something to become true, and for nothing longer than that.

use std::time::Duration;

use tokio::time::{Instant, sleep};

/// Far longer than anything here takes on a busy two-core machine, so that running out of it means a defect.
const DEADLINE: Duration = Duration::from_mins(1);
/// Short against what is waited for, long against the request that looks.
const BETWEEN_LOOKS: Duration = Duration::from_millis(25);

/// Looks until `look` gives a value. Panics with `what` and the last reason when the deadline passes.
pub async fn until<T, F>(what: &str, mut look: impl FnMut() -> F) -> T
where
    F: Future<Output = Result<T, String>>,
{
    let deadline = Instant::now() + DEADLINE;
    loop {
        let reason = match look().await {
            Ok(value) => return value,
            Err(reason) => reason,
        };
        assert!(Instant::now() < deadline, "waited in vain until {what}; last: {reason}");
        sleep(BETWEEN_LOOKS).await;
    }
}
