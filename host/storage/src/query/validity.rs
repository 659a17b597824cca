//! The choice between records that their lexicon accepts and those that it rejects.

/// A `valid` parameter that is neither `true` nor `false`.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
#[error("valid must be true or false")]
pub struct InvalidValidity;

/// Reads a `valid` parameter; absent: records of both kinds.
///
/// # Errors
/// For any text but `true` and `false`.
pub fn valid(text: Option<&str>) -> Result<Option<bool>, InvalidValidity> {
    text.map(|text| text.parse().map_err(|_| InvalidValidity)).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_two_words_are_read() {
        assert_eq!((valid(None), valid(Some("true"))), (Ok(None), Ok(Some(true))));
        assert_eq!(valid(Some("false")), Ok(Some(false)));
        for text in ["", "True", "1", "all"] {
            assert_eq!(valid(Some(text)), Err(InvalidValidity), "{text}");
        }
    }
}
