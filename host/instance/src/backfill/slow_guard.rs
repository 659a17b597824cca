//! Notices PDSs that give a repo too slowly.

use std::time::Duration;

use super::failure::{ErrorKind, Failure};

/// A repo that gives fewer answers than one a second for this long is given up: other jobs wait for this one.
const SLOW_AFTER: Duration = Duration::from_mins(10);

/// Whether a PDS answers fast enough.
///
/// # Errors
/// When the records and denials that were `given` are too few for the time `spent` on requests.
pub(super) fn check(spent: Duration, given: i64) -> Result<(), Failure> {
    if spent > SLOW_AFTER && given < spent.as_secs() as i64 {
        return Err(Failure::new(ErrorKind::Timeout, "the PDS gives fewer than one record a second"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_answer_a_second_is_enough() {
        for (seconds, given, is_slow) in
            [(600, 0, false), (601, 601, false), (601, 600, true), (9_000, 0, true)]
        {
            assert_eq!(check(Duration::from_secs(seconds), given).is_err(), is_slow, "{seconds} {given}");
        }
    }
}
