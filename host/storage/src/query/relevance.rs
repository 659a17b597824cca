//! The order of the results of a search.

/// The position of a record in the results of a search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Relevance {
    /// Exact matches in each field, then values that begin with the text, then the rest.
    pub rank: u8,
    /// The value that matches: its first [`MAX_TEXT_CHARS`](super::sort::MAX_TEXT_CHARS) characters, ASCII letters in lower case.
    pub key: String,
    pub id: i64,
}
