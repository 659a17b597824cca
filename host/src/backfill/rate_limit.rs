//! How long to wait for a server that limits the rate of requests. Such a server is alive: its refusals are waited out,
//! and don't count as failures.

use std::time::Duration;

use tokio::time::Instant;

use super::failure::{Failure, MAX_RATE_LIMIT_WAIT};
use crate::net::RATE_LIMIT_WAIT;

/// A server that answers nothing but 429 for this long is given up: other jobs wait for this one.
const MAX_LIMITED: Duration = Duration::from_mins(30);

/// The answers of 429 of one server in a row.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RateLimit {
    since: Option<Instant>,
    answers: u32,
}

impl RateLimit {
    /// Counts an answer of 429. Returns how long to wait; `None` when the server is given up.
    pub(super) fn wait(&mut self, failure: &Failure, now: Instant) -> Option<Duration> {
        if now - *self.since.get_or_insert(now) > MAX_LIMITED {
            return None;
        }
        // Doubles with each further answer in a row.
        let doubled = RATE_LIMIT_WAIT.saturating_mul(1 << self.answers.min(16));
        self.answers += 1;
        Some(failure.wait.unwrap_or(doubled).min(MAX_RATE_LIMIT_WAIT))
    }

    /// The server has answered with something else.
    pub(super) fn end(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::super::failure::ErrorKind;
    use super::*;

    fn limited(seconds: Option<u64>) -> Failure {
        Failure { wait: seconds.map(Duration::from_secs), ..Failure::new(ErrorKind::RateLimited, "429") }
    }

    #[tokio::test(start_paused = true)]
    async fn waits_grow_to_five_minutes_and_end_after_half_an_hour() {
        let (mut limit, began) = (RateLimit::default(), Instant::now());
        let mut waits = Vec::new();
        while let Some(wait) = limit.wait(&limited(None), Instant::now()) {
            waits.push(wait.as_secs());
            tokio::time::advance(wait).await;
        }
        assert_eq!(&waits[..8], [5, 10, 20, 40, 80, 160, 300, 300]);
        assert!((1_800..2_101).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
        limit.end();
        assert_eq!(limit.wait(&limited(None), Instant::now()), Some(RATE_LIMIT_WAIT));
    }

    #[tokio::test(start_paused = true)]
    async fn the_server_decides_up_to_five_minutes() {
        for (asked, expected) in [(1, 1), (90, 90), (299, 299), (9_999, 300)] {
            let mut limit = RateLimit::default();
            for _ in 0..3 {
                let wait = limit.wait(&limited(Some(asked)), Instant::now());
                assert_eq!(wait, Some(Duration::from_secs(expected)));
            }
        }
    }
}
