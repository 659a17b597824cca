//! Generates record keys for scripts: TIDs that strictly increase within this process.

use std::sync::atomic::{AtomicI64, Ordering};

use belvedere_base::clock::Timestamp;
use belvedere_protocol::atproto::Tid;

/// Never uses a microsecond twice, so that keys made in one microsecond are ordered too; the clock id distinguishes
/// processes.
#[derive(Debug)]
pub(in crate::scripts) struct TidClock {
    last: AtomicI64,
    id: u16,
}

impl TidClock {
    /// `id` is random; ten bits of it are used.
    pub(in crate::scripts) fn new(id: u64) -> Self {
        Self { last: AtomicI64::new(0), id: (id & 0x3ff) as u16 }
    }

    pub(in crate::scripts) fn next(&self, now: Timestamp) -> String {
        let at = |last: i64| now.0.max(last + 1);
        let last = self.last.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| Some(at(last)));
        let (Ok(last) | Err(last)) = last; // the closure never returns None
        Tid::new(at(last) as u64, self.id).expect("the time is before the year 2255").to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_grow_even_when_the_clock_stands_or_goes_back() {
        let clock = TidClock::new(u64::MAX);
        let keys: Vec<_> =
            [5_000_000, 5_000_000, 4_000_000, 6_000_000].map(|at| clock.next(Timestamp(at))).into();
        assert!(keys.is_sorted_by(|a, b| a < b), "{keys:?}");
        for key in keys {
            assert!(Tid::try_from(key.as_str()).is_ok(), "{key}");
        }
    }
}
