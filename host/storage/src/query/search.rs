//! Checks the arguments of `db.search`.

use belvedere_protocol::atproto::Nsid;

use super::cursor::{InvalidCursor, decode_search};
use super::relevance::Relevance;
use super::sort::MAX_TEXT_CHARS;
use super::{PageSize, Path};

/// Longer texts are rejected: no database checks its deadline while it looks for one, and indexes have the beginnings of
/// texts only.
const MAX_TEXT_BYTES: usize = 250;

const _: () = assert!(MAX_TEXT_BYTES < MAX_TEXT_CHARS, "the index of texts serves every search");

/// The maximum number of fields of a search: each is compared for every record that it considers.
pub const MAX_FIELDS: usize = 4;

#[derive(Clone, Debug)]
pub struct Search {
    pub collection: Nsid,
    /// At least one. Among equally good matches those in earlier fields come first.
    pub fields: Vec<Path>,
    /// Without U+0000, shorter than the keys of an index of texts.
    pub text: String,
    pub after: Option<Relevance>,
    pub limit: u32,
}

/// Error for an invalid search. The text is for the script's author.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SearchError {
    #[error("invalid search field {0:?}")]
    Field(String),
    #[error("a search has 1 to {MAX_FIELDS} fields")]
    Fields,
    #[error("the search query is empty")]
    Empty,
    #[error("the search query is too long (at most {MAX_TEXT_BYTES} bytes)")]
    TooLong,
    #[error("the search query contains U+0000")]
    Nul,
    #[error(transparent)]
    Cursor(#[from] InvalidCursor),
}

impl Search {
    /// Checks the arguments. `limit` is clamped to 1..=100; 10 when absent. An empty cursor counts as none.
    ///
    /// # Errors
    /// Names the first invalid argument.
    pub fn parse(
        collection: Nsid,
        fields: &[impl AsRef<str>],
        text: String,
        limit: Option<i64>,
        cursor: Option<&str>,
    ) -> Result<Self, SearchError> {
        let path = |field: &str| {
            Path::parse(field).map_err(|_| SearchError::Field(field.chars().take(80).collect()))
        };
        let mut paths = Vec::with_capacity(fields.len());
        for field in fields {
            let path = path(field.as_ref())?;
            if !paths.contains(&path) {
                paths.push(path);
            }
        }
        if !(1..=MAX_FIELDS).contains(&paths.len()) {
            return Err(SearchError::Fields);
        }
        if text.is_empty() {
            return Err(SearchError::Empty);
        }
        if text.len() > MAX_TEXT_BYTES {
            return Err(SearchError::TooLong);
        }
        if text.contains('\0') {
            return Err(SearchError::Nul);
        }
        let limit = PageSize::SEARCH.clamp(limit);
        Self { collection, fields: paths, text, after: None, limit }.after(cursor)
    }

    /// The same search, for the page after a cursor. An empty one counts as none.
    ///
    /// # Errors
    /// When it is no cursor of a search.
    pub fn after(mut self, cursor: Option<&str>) -> Result<Self, SearchError> {
        self.after = cursor.filter(|cursor| !cursor.is_empty()).map(decode_search).transpose()?;
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_the_cause() {
        let parse = |field: &str, text: &str, limit| {
            let collection = Nsid::try_from("com.example.note").unwrap();
            Search::parse(collection, &[field], text.to_owned(), limit, None).map(|search| search.limit)
        };
        assert_eq!(parse("a.b[0]", "x", None), Ok(10));
        assert_eq!(parse("a", "x", Some(-5)), Ok(1));
        assert_eq!(parse("a", "x", Some(i64::MAX)), Ok(100));
        assert_eq!(parse("$type", "x", None), Err(SearchError::Field("$type".into())));
        assert_eq!(parse("a", "", None), Err(SearchError::Empty));
        assert_eq!(parse("a", "a\0", None), Err(SearchError::Nul));
        assert_eq!(parse("a", &"x".repeat(1_025), None), Err(SearchError::TooLong));
    }

    #[test]
    fn several_fields_and_a_cursor() {
        let parse = |fields: &[&str], cursor: Option<&str>| {
            let collection = Nsid::try_from("com.example.note").unwrap();
            Search::parse(collection, fields, "x".to_owned(), None, cursor)
                .map(|search| (search.fields.len(), search.after))
        };
        let after = Relevance { rank: 5, key: "ä".to_owned(), id: i64::MAX };
        assert_eq!(parse(&["a", "b", "a"], Some(&after.cursor())), Ok((2, Some(after.clone()))));
        assert_eq!(parse(&["a"], Some("")), Ok((1, None)));
        assert_eq!(parse(&[], None), Err(SearchError::Fields));
        assert_eq!(parse(&["a", "b", "c", "d", "e"], None), Err(SearchError::Fields));
        for cursor in ["x", &after.cursor()[1..], "AQ"] {
            assert_eq!(parse(&["a"], Some(cursor)), Err(SearchError::Cursor(InvalidCursor)), "{cursor}");
        }
    }
}
