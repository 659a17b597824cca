//! Follows work on a server until it has ended, for commands that wait. Polls, so that it survives a restart of the server and a
//! change of the host that does the work.

use std::time::Duration;

/// Time between two looks.
const PERIOD: Duration = Duration::from_secs(1);
/// Looks in a row that may fail: a server restarts within this many periods.
const MAX_FAILURES: u32 = 60;

/// Calls `look` in each period until `has_ended`, which may show the progress, and returns what it saw last.
///
/// # Errors
/// That of the first look, for example for a key without the permission, and that of too many in a row.
pub(super) async fn until_end<T>(
    look: impl AsyncFn() -> anyhow::Result<T>,
    mut has_ended: impl FnMut(&T) -> bool,
) -> anyhow::Result<T> {
    let mut failures = MAX_FAILURES;
    loop {
        match look().await {
            Ok(seen) if has_ended(&seen) => return Ok(seen),
            Ok(_) => failures = 0,
            Err(error) if failures == MAX_FAILURES => return Err(error),
            Err(_) => failures += 1,
        }
        tokio::time::sleep(PERIOD).await;
    }
}
