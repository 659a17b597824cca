//! Measures how many bytes a client took over the last ticks.

use super::limits;

const TICKS: usize = limits::STALL_TICKS as usize;

/// Bytes that a client took in each of the last [`limits::STALL_TICKS`] ticks.
#[derive(Debug, Default)]
pub(super) struct Pace {
    took: [u64; TICKS],
    next: usize,
    /// Complete ticks so far, at most `TICKS`; `None` before the first, incomplete one has ended.
    ticks: Option<usize>,
    total: u64,
}

impl Pace {
    /// Ends a tick, with the bytes taken in total. Returns the bytes taken over the last `TICKS` ticks once there were
    /// that many.
    pub(super) fn tick(&mut self, total: u64) -> Option<u64> {
        let took = total - std::mem::replace(&mut self.total, total);
        let Some(ticks) = self.ticks else {
            self.ticks = Some(0);
            return None;
        };
        self.took[self.next] = took;
        self.next = (self.next + 1) % TICKS;
        let ticks = (ticks + 1).min(TICKS);
        self.ticks = Some(ticks);
        (ticks == TICKS).then(|| self.took.iter().sum())
    }

    /// Starts measuring again.
    pub(super) fn reset(&mut self, total: u64) {
        *self = Self { total, ..Self::default() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_complete_ticks_count() {
        let mut pace = Pace::default();
        assert_eq!(pace.tick(7), None);
        for n in 1..TICKS as u64 {
            assert_eq!(pace.tick(7 + n * 10), None);
        }
        assert_eq!(pace.tick(100), Some(93));
        assert_eq!(pace.tick(100), Some(83), "the first ten are too long ago");
        pace.reset(100);
        assert_eq!(pace.tick(101), None);
    }
}
