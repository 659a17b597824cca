//! Retries event scripts that fail temporarily.

use std::time::Duration;

use belvedere_scripting::scripts::ScriptFailure;

/// Waits between attempts; so there are four attempts at most (`lua-runtime.md` §6).
const RETRY_DELAYS: [Duration; 3] = [Duration::from_secs(1), Duration::from_secs(2), Duration::from_secs(4)];

/// The failure of the last attempt, and how many there were.
#[derive(Debug)]
pub(super) struct FinalFailure {
    pub(super) failure: ScriptFailure,
    pub(super) attempts: u32,
}

/// Calls `attempt` until it succeeds, fails in a way that a retry can't help, or no retries are left. Returns the
/// number of attempts with the result.
pub(super) async fn with_retries<T, F>(mut attempt: impl FnMut() -> F) -> Result<(T, u32), FinalFailure>
where
    F: Future<Output = Result<T, ScriptFailure>>,
{
    let mut delays = RETRY_DELAYS.into_iter();
    let mut attempts = 0;
    loop {
        attempts += 1;
        let failure = match attempt().await {
            Ok(value) => return Ok((value, attempts)),
            Err(failure) => failure,
        };
        match delays.next().filter(|_| failure.is_retryable()) {
            Some(delay) => {
                tracing::debug!(
                    attempts,
                    error = failure.message,
                    "an event script failed and will be retried"
                );
                tokio::time::sleep(delay).await;
            }
            None => return Err(FinalFailure { failure, attempts }),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;
    use belvedere_scripting::scripts::FailureKind;

    #[tokio::test(start_paused = true)]
    async fn temporary_failures_get_four_attempts_and_others_one() {
        let started = Instant::now();
        let failing = || async { Err::<(), _>(ScriptFailure::new(FailureKind::Busy, "busy")) };
        assert_eq!(with_retries(failing).await.unwrap_err().attempts, 4);
        assert_eq!(started.elapsed(), Duration::from_secs(7));

        let started = Instant::now();
        let failing = || async { Err::<(), _>(ScriptFailure::new(FailureKind::Runtime, "wrong")) };
        assert_eq!(with_retries(failing).await.unwrap_err().attempts, 1);
        assert_eq!(started.elapsed(), Duration::ZERO);

        let mut left = 2;
        let recovering = || {
            left -= 1;
            let failing = left > 0;
            async move { if failing { Err(ScriptFailure::new(FailureKind::Internal, "no")) } else { Ok("fine") } }
        };
        assert_eq!(with_retries(recovering).await.unwrap(), ("fine", 2));
    }
}
