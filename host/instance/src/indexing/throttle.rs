//! Limits how often one kind of report is logged, so that a hostile server can't fill the log.

use std::sync::{Mutex, PoisonError};

use belvedere_base::clock::{Clock, Timestamp};

/// A token bucket: allows a burst, then one report per interval, and counts the suppressed ones.
#[derive(Debug)]
pub struct Throttle {
    clock: Clock,
    burst: u32,
    /// Microseconds after which one more report is allowed.
    refill_us: i64,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    tokens: u32,
    refilled: Timestamp,
    held_back: u64,
}

impl Throttle {
    pub fn new(clock: Clock, burst: u32, refill_us: i64) -> Self {
        let refilled = clock.now();
        Self { clock, burst, refill_us, state: Mutex::new(State { tokens: burst, refilled, held_back: 0 }) }
    }

    /// `Some(n)` when this report may be logged, where n were suppressed since the last; else `None`.
    pub fn pass(&self) -> Option<u64> {
        let now = self.clock.now();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let earned = (now.0 - state.refilled.0).div_euclid(self.refill_us).max(0);
        if earned > 0 {
            state.tokens =
                state.tokens.saturating_add(earned.min(i64::from(self.burst)) as u32).min(self.burst);
            state.refilled = Timestamp(state.refilled.0 + earned * self.refill_us);
        }
        if state.tokens == 0 {
            state.held_back += 1;
            return None;
        }
        state.tokens -= 1;
        Some(std::mem::take(&mut state.held_back))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_then_one_per_interval_with_a_count_of_the_suppressed() {
        let clock = Clock::fixed(Timestamp(0));
        let throttle = Throttle::new(clock.clone(), 2, 1_000_000);
        assert_eq!((0..5).map(|_| throttle.pass()).collect::<Vec<_>>(), [Some(0), Some(0), None, None, None]);
        clock.set(Timestamp(1_500_000));
        assert_eq!([throttle.pass(), throttle.pass()], [Some(3), None]);
        clock.set(Timestamp(1_000_000_000));
        assert_eq!([throttle.pass(), throttle.pass(), throttle.pass()], [Some(1), Some(0), None]);
    }
}
