//! The time to wait for a server that limits the rate of requests. Such a server is alive: its refusals are waited out,
//! and don't count as failures.

use std::time::Duration;

use tokio::time::Instant;

use super::failure::{Failure, MAX_RATE_LIMIT_WAIT};
use belvedere_web::net::RATE_LIMIT_WAIT;

/// A server that answers nothing but 429 for this long is given up: other jobs wait for this one.
const MAX_LIMITED: Duration = Duration::from_mins(30);

/// Maximum total wait of one job for a server that gives nothing: twenty-four of the usual windows of five minutes.
/// Pages without records in between cost a server nothing, so they don't extend it.
const MAX_WAITED: Duration = Duration::from_hours(2);

/// Additional wait of a job for each thing that the server gives. One a second is what slower servers have to give too
/// ([`super::slow_guard`]); a PDS that allows 3,000 requests in five minutes gives ten times as much.
const WAIT_FOR_EACH_GIVEN: Duration = Duration::from_secs(1);

/// The answers of 429 of one server.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RateLimit {
    /// The time at which those in a row began.
    since: Option<Instant>,
    /// Those in a row.
    answers: u32,
    /// All waits so far. Never starts over.
    waited: Duration,
    /// The number of things that the server has given so far.
    given: u64,
}

impl RateLimit {
    /// Counts an answer of 429. Returns how long to wait; `None` when the server is given up.
    pub(super) fn wait(&mut self, failure: &Failure, now: Instant) -> Option<Duration> {
        let given = u32::try_from(self.given).unwrap_or(u32::MAX);
        let max_waited = MAX_WAITED + WAIT_FOR_EACH_GIVEN.saturating_mul(given);
        if now - *self.since.get_or_insert(now) > MAX_LIMITED || self.waited > max_waited {
            return None;
        }
        // Doubles with each further answer in a row.
        let doubled = RATE_LIMIT_WAIT.saturating_mul(1 << self.answers.min(16));
        self.answers += 1;
        let wait = failure.wait.unwrap_or(doubled).min(MAX_RATE_LIMIT_WAIT);
        self.waited += wait;
        Some(wait)
    }

    /// The server has given something: records, denials of records, or the end of a unit. Answers of 429 after it are a
    /// new row of them.
    pub(super) fn gave(&mut self, given: u64) {
        if given > 0 {
            (self.since, self.answers) = (None, 0);
            self.given = self.given.saturating_add(given);
        }
    }

    /// Whether the server has ever made the job wait.
    pub(super) fn has_waited(&self) -> bool {
        !self.waited.is_zero()
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
        limit.gave(0);
        assert_eq!(limit.wait(&limited(None), Instant::now()), None);
        limit.gave(1);
        assert_eq!(limit.wait(&limited(None), Instant::now()), Some(RATE_LIMIT_WAIT));
    }

    #[tokio::test(start_paused = true)]
    async fn all_waits_together_are_bounded_by_what_the_server_gives() {
        for (given, expected) in [(1, 25), (60, 31), (150, 49), (300, 10_000)] {
            let (mut limit, mut waits) = (RateLimit::default(), 0);
            while waits < 10_000 && limit.wait(&limited(Some(300)), Instant::now()).is_some() {
                waits += 1;
                tokio::time::advance(Duration::from_mins(5)).await;
                limit.gave(given);
            }
            assert_eq!(waits, expected, "{given} in each window of five minutes");
        }
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
