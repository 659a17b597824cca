//! The slowest response that a paced client reads to its end.

use std::time::Duration;

/// Time that the first bytes of a body may take.
const FIRST: Duration = Duration::from_secs(10);

/// A page of records at this rate takes minutes: the limit of the whole request ends it anyway.
const MIN_BYTES_PER_SECOND: usize = 4 << 10;

/// Time after its head within which the next bytes of a response must arrive, when `received` bytes of the body have.
pub(super) fn max_wait(received: usize) -> Duration {
    FIRST + Duration::from_secs((received / MIN_BYTES_PER_SECOND) as u64)
}
