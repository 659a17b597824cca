//! Checks the arguments of `db.search`.

use belvedere_protocol::atproto::Nsid;

use super::sort::MAX_TEXT_CHARS;
use super::{PageSize, Path};

/// Longer texts are rejected: no database checks its deadline while it looks for one, and indexes have the beginnings of
/// texts only.
const MAX_TEXT_BYTES: usize = 250;

const _: () = assert!(MAX_TEXT_BYTES < MAX_TEXT_CHARS, "the index of texts serves every search");

#[derive(Clone, Debug)]
pub struct Search {
    pub(crate) collection: Nsid,
    pub(crate) field: Path,
    /// Without U+0000, shorter than the keys of an index of texts.
    pub(crate) text: String,
    pub(crate) limit: u32,
}

/// Error for an invalid search. The text is for the script's author.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SearchError {
    #[error("invalid search field {0:?}")]
    Field(String),
    #[error("the search query is empty")]
    Empty,
    #[error("the search query is too long (at most {MAX_TEXT_BYTES} bytes)")]
    TooLong,
    #[error("the search query contains U+0000")]
    Nul,
}

impl Search {
    /// Checks the arguments. `limit` is clamped to 1..=100; 10 when absent.
    ///
    /// # Errors
    /// Names the first invalid argument.
    pub fn parse(
        collection: Nsid,
        field: &str,
        text: String,
        limit: Option<i64>,
    ) -> Result<Self, SearchError> {
        let path = Path::parse(field).map_err(|_| SearchError::Field(field.chars().take(80).collect()))?;
        if text.is_empty() {
            return Err(SearchError::Empty);
        }
        if text.len() > MAX_TEXT_BYTES {
            return Err(SearchError::TooLong);
        }
        if text.contains('\0') {
            return Err(SearchError::Nul);
        }
        Ok(Self { collection, field: path, text, limit: PageSize::SEARCH.clamp(limit) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_the_cause() {
        let parse = |field: &str, text: &str, limit| {
            let collection = Nsid::try_from("com.example.note").unwrap();
            Search::parse(collection, field, text.to_owned(), limit).map(|search| search.limit)
        };
        assert_eq!(parse("a.b[0]", "x", None), Ok(10));
        assert_eq!(parse("a", "x", Some(-5)), Ok(1));
        assert_eq!(parse("a", "x", Some(i64::MAX)), Ok(100));
        assert_eq!(parse("$type", "x", None), Err(SearchError::Field("$type".into())));
        assert_eq!(parse("a", "", None), Err(SearchError::Empty));
        assert_eq!(parse("a", "a\0", None), Err(SearchError::Nul));
        assert_eq!(parse("a", &"x".repeat(1_025), None), Err(SearchError::TooLong));
    }
}
