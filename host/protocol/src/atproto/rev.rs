//! Times of revs. A rev is a TID: the time of a commit by the clock of the repo's PDS, made unique by a clock identifier.

use shrike::syntax::Tid;

use belvedere_base::clock::Timestamp;

/// Maximum by which a PDS's clock may be ahead of ours. A commit with a later rev would win against every other commit
/// until that time has come, and so keep deleted records visible.
const MAX_CLOCK_DIFFERENCE_SECONDS: i64 = 5 * 60;

/// 2022-01-01: before there was a repo. A clock that shows an earlier time has not been set yet.
const CLOCK_IS_SET_FROM: Timestamp = Timestamp(1_640_995_200_000_000);

/// The highest clock identifier of a TID.
const MAX_CLOCK_ID: u16 = 0x3ff;

/// The highest rev of a commit at a time; `None` when revs can't express the time.
pub fn highest_at(time: Timestamp) -> Option<Tid> {
    Tid::new(u64::try_from(time.0).ok()?, MAX_CLOCK_ID).ok()
}

/// The highest rev that a commit can have by now; `None` when the clock has not been set, so that it decides nothing.
pub fn latest_possible(now: Timestamp) -> Option<Tid> {
    if now < CLOCK_IS_SET_FROM { None } else { highest_at(now.plus_seconds(MAX_CLOCK_DIFFERENCE_SECONDS)) }
}

/// Whether no clock that is about right has made this rev yet.
pub fn is_of_the_future(rev: Tid, now: Timestamp) -> bool {
    latest_possible(now).is_some_and(|latest| rev > latest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rev_may_be_five_minutes_ahead() {
        let now = Timestamp(1_800_000_000_000_000);
        let at = |seconds| highest_at(now.plus_seconds(seconds)).unwrap();
        for (seconds, is_of_the_future_then) in
            [(-86_400, false), (0, false), (300, false), (301, true), (3_600, true)]
        {
            assert_eq!(is_of_the_future(at(seconds), now), is_of_the_future_then, "{seconds}");
        }
        // A machine without a battery begins in 1970.
        assert!(
            !is_of_the_future(at(0), Timestamp(-1_000_000_000)) && !is_of_the_future(at(0), Timestamp(0))
        );
        assert_eq!((highest_at(Timestamp(-1)), highest_at(Timestamp(i64::MAX))), (None, None));
    }
}
