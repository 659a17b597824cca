//! Assigns revs.

use belvedere_base::clock::Timestamp;
use belvedere_protocol::atproto::Tid;

use super::super::StoreError;
use super::columns::corrupt;

/// A rev at a time that is later than all before it, also when the clock went back.
pub(super) fn next_rev(last: Option<Tid>, now: Timestamp) -> Result<Tid, StoreError> {
    let now = u64::try_from(now.0).unwrap_or(0);
    let next = last.map_or(0, |last| last.timestamp_micros() + 1);
    Tid::new(now.max(next), 0).map_err(|error| corrupt("the last rev", error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn revs_increase_when_the_clock_does_not() {
        let mut last = None;
        for (now, expected) in [(5, 5), (5, 6), (3, 7), (-1, 8), (20, 20)] {
            let next = next_rev(last, Timestamp(now)).unwrap();
            assert_eq!(next.timestamp_micros(), expected);
            assert!(last.is_none_or(|last| last < next && last.to_string() < next.to_string()));
            last = Some(next);
        }
        assert!(next_rev(Some(Tid::new((1 << 53) - 1, 0).unwrap()), Timestamp(0)).is_err());
    }
}
