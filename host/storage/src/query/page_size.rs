//! The number of rows of a page of a list.

/// The default and the largest page size of a list. The specification (service.md, Limits) gives one default for
/// records and one for logs, and the same maximum for all, which bounds the cost of a page.
#[derive(Clone, Copy, Debug)]
pub struct PageSize {
    pub default: u32,
    pub max: u32,
}

/// An invalid `limit`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("limit must be a number from 1 to {max}")]
pub struct InvalidLimit {
    max: u32,
}

impl PageSize {
    /// XRPC lists and admin records.
    pub const RECORDS: Self = Self { default: 20, max: 100 };
    /// Records without their fields.
    pub const URIS: Self = Self { default: 20, max: 1_000 };
    /// The event log and other logs.
    pub const LOGS: Self = Self { default: 50, max: 100 };
    /// Rows of `db.group`, which are small.
    pub const GROUPS: Self = Self { default: 50, max: 1_000 };
    /// Rows of `db.page`. The statement reads one more, within the limit of rows of SQL.
    pub const SQL: Self = Self { default: 50, max: 500 };
    /// `db.search`.
    pub const SEARCH: Self = Self { default: 10, max: 100 };

    /// The rows to read for a page of `limit` rows: one more shows whether another page follows.
    pub const fn rows_read(limit: u32) -> u32 {
        limit + 1
    }

    /// The page size for a requested one, clamped to the allowed range.
    pub fn clamp(self, limit: Option<i64>) -> u32 {
        let clamped = limit.map(|limit| limit.clamp(1, i64::from(self.max)));
        clamped.and_then(|limit| u32::try_from(limit).ok()).unwrap_or(self.default)
    }

    /// Reads `limit`, clamped to the allowed range.
    ///
    /// # Errors
    /// When it is not a number.
    pub fn read(self, limit: Option<&str>) -> Result<u32, InvalidLimit> {
        let number = limit.map(str::parse).transpose().map_err(|_| InvalidLimit { max: self.max })?;
        Ok(self.clamp(number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_clamped_and_must_be_numbers() {
        let read = |text| PageSize::RECORDS.read(text);
        assert_eq!(read(None), Ok(20));
        for (limit, expected) in [(i64::MIN, 1), (0, 1), (1, 1), (100, 100), (101, 100), (i64::MAX, 100)] {
            assert_eq!(PageSize::RECORDS.clamp(Some(limit)), expected);
        }
        for (text, expected) in [("7", 7), ("0", 1), ("-5", 1), ("5000", 100)] {
            assert_eq!(read(Some(text)), Ok(expected), "{text}");
        }
        for text in ["", "ten", "1.5", "99999999999999999999"] {
            assert_eq!(read(Some(text)), Err(InvalidLimit { max: 100 }), "{text}");
        }
    }
}
