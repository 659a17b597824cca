//! Limits the bytes that one read of records takes from the database, whatever the limit of its rows. A record larger than
//! [`INLINE_BYTES`] does not come with its row and is read by itself, until the page is full.

use super::super::select::INLINE_BYTES;

/// Bytes of the records of a page: those of the longest page, if each comes with its row.
pub const PAGE_BYTES: usize = 1_000 * INLINE_BYTES;

/// SQL: the record `r` if it is small enough to come with its row, and the size of every record.
macro_rules! inline_record {
    () => {
        "CASE WHEN octet_length(r.record) <= 10240 THEN r.record END"
    };
    (size) => {
        "CAST(octet_length(r.record) AS BIGINT)"
    };
}
pub(super) use inline_record;
const _: () = assert!(INLINE_BYTES == 10_240, "the statements contain this number");

/// The bytes that a page has taken, of those that it may take.
#[derive(Debug)]
pub(super) struct Taken {
    bytes: usize,
    max: usize,
}

impl Default for Taken {
    fn default() -> Self {
        Self::of(PAGE_BYTES)
    }
}

impl Taken {
    pub(super) fn of(max: usize) -> Self {
        Self { bytes: 0, max }
    }

    /// Takes a record into the page. `false` when the page is full; the first record always fits.
    pub(super) fn take(&mut self, size: i64) -> bool {
        let total = self.bytes.saturating_add(usize::try_from(size).unwrap_or_default());
        let fits = self.bytes == 0 || total <= self.max;
        if fits {
            self.bytes = total;
        }
        fits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_at_least_one_record() {
        let mut taken = Taken::default();
        assert!(taken.take(i64::MAX) && !taken.take(1) && !taken.take(1));
        let mut taken = Taken::default();
        assert!((0..1_000).all(|_| taken.take(INLINE_BYTES as i64)));
        assert!(!taken.take(1));
    }
}
