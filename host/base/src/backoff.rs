//! Computes the wait before the next attempt: exponential backoff with jitter.

use std::time::Duration;

use crate::random::Random;

/// Waits that double from `floor` to `cap`. Each is chosen at random from its upper half, so that many clients don't
/// reconnect at the same moment. Never shorter than `floor`.
#[derive(Clone, Debug)]
pub struct Backoff {
    floor: Duration,
    cap: Duration,
    tries: u32,
}

/// Doublings after which any cap is reached.
const MAX_DOUBLINGS: u32 = 20;

impl Backoff {
    pub fn new(floor: Duration, cap: Duration) -> Self {
        Self { floor, cap, tries: 0 }
    }

    pub fn next(&mut self, random: &Random) -> Duration {
        self.tries = (self.tries + 1).min(MAX_DOUBLINGS);
        let longest = self.floor.saturating_mul(1 << self.tries).min(self.cap.max(self.floor));
        let half = longest / 2;
        let spread = (random.u64() >> 11) as f64 / (1_u64 << 53) as f64;
        (half + half.mul_f64(spread)).max(self.floor)
    }

    /// Starts over after a success.
    pub fn reset(&mut self) {
        self.tries = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grows_to_the_cap_with_jitter_above_the_floor() {
        let random = Random::seeded(7);
        let mut backoff = Backoff::new(Duration::from_secs(1), Duration::from_mins(1));
        let waits: Vec<f64> = (0..12).map(|_| backoff.next(&random).as_secs_f64()).collect();
        for (i, wait) in waits.iter().enumerate() {
            let longest = 60f64.min(f64::from(1 << (i + 1)));
            assert!(*wait >= 1.0 && *wait >= longest / 2.0 && *wait <= longest, "{waits:?}");
        }
        assert!(waits[8..].windows(2).any(|w| (w[0] - w[1]).abs() > 0.01), "no jitter: {waits:?}");
        backoff.reset();
        assert!(backoff.next(&random) <= Duration::from_secs(2));
    }
}
