//! When to try again.

use std::time::Duration;

use crate::scripts::ScriptFailure;

/// Waits between attempts: four attempts in all (`lua-runtime.md` §6).
const WAITS: [Duration; 3] = [Duration::from_secs(1), Duration::from_secs(2), Duration::from_secs(4)];

/// A script that failed for good.
#[derive(Debug)]
pub(super) struct GaveUp {
    pub(super) failure: ScriptFailure,
    pub(super) attempts: u32,
}

/// Attempts until one ends well, or fails in a way that trying again can't help, or was the last. Gives the number of
/// attempts with the result.
pub(super) async fn attempts<T, F>(mut attempt: impl FnMut() -> F) -> Result<(T, u32), GaveUp>
where
    F: Future<Output = Result<T, ScriptFailure>>,
{
    let mut waits = WAITS.into_iter();
    let mut attempts = 0;
    loop {
        attempts += 1;
        let failure = match attempt().await {
            Ok(value) => return Ok((value, attempts)),
            Err(failure) => failure,
        };
        match waits.next().filter(|_| failure.is_retryable()) {
            Some(wait) => {
                tracing::debug!(
                    attempts,
                    error = failure.message,
                    "an event's script failed and is tried again"
                );
                tokio::time::sleep(wait).await;
            }
            None => return Err(GaveUp { failure, attempts }),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;
    use crate::scripts::FailureKind;

    #[tokio::test(start_paused = true)]
    async fn four_attempts_for_what_may_pass_and_one_for_what_will_not() {
        let started = Instant::now();
        let failing = || async { Err::<(), _>(ScriptFailure::new(FailureKind::Busy, "busy")) };
        assert_eq!(attempts(failing).await.unwrap_err().attempts, 4);
        assert_eq!(started.elapsed(), Duration::from_secs(7));

        let started = Instant::now();
        let failing = || async { Err::<(), _>(ScriptFailure::new(FailureKind::Runtime, "wrong")) };
        assert_eq!(attempts(failing).await.unwrap_err().attempts, 1);
        assert_eq!(started.elapsed(), Duration::ZERO);

        let mut left = 2;
        let recovering = || {
            left -= 1;
            let failing = left > 0;
            async move { if failing { Err(ScriptFailure::new(FailureKind::Internal, "no")) } else { Ok("fine") } }
        };
        assert_eq!(attempts(recovering).await.unwrap(), ("fine", 2));
    }
}
