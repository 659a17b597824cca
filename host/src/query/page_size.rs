//! How many rows a page of a list has.

/// The default and the largest page size of a list. The specification gives one default for records and one for logs, and
/// the same upper bound for all, so that no page can be large enough to hurt.
#[derive(Clone, Copy, Debug)]
pub struct PageSize {
    pub default: u32,
    pub max: u32,
}

/// Why a text is no page size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("limit must be a number from 1 to {max}")]
pub struct InvalidLimit {
    max: u32,
}

impl PageSize {
    /// XRPC lists and admin records.
    pub const RECORDS: Self = Self { default: 20, max: 100 };
    /// The event log and other logs.
    pub const LOGS: Self = Self { default: 50, max: 100 };

    /// Reads `limit`, clamped to what is allowed.
    ///
    /// # Errors
    /// When it is not a number.
    pub fn read(self, limit: Option<&str>) -> Result<u32, InvalidLimit> {
        let Some(text) = limit else { return Ok(self.default) };
        let number: i64 = text.parse().map_err(|_| InvalidLimit { max: self.max })?;
        Ok(u32::try_from(number.clamp(1, i64::from(self.max))).unwrap_or(self.default))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_clamped_and_must_be_numbers() {
        let read = |text| PageSize::RECORDS.read(text);
        assert_eq!(read(None), Ok(20));
        for (text, expected) in [("7", 7), ("0", 1), ("-5", 1), ("5000", 100)] {
            assert_eq!(read(Some(text)), Ok(expected), "{text}");
        }
        for text in ["", "ten", "1.5", "99999999999999999999"] {
            assert_eq!(read(Some(text)), Err(InvalidLimit { max: 100 }), "{text}");
        }
    }
}
