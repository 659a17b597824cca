//! The position of a row in an order of records, and the cursors of the pages after and before it.
//!
//! The cursor of the page before a row is that of the page after it, behind a tilde, which base64url does not have (ADR 130).

use super::cursor::{InvalidCursor, Keyset, decode, decode_sorted, encode, encode_sorted};
use super::sort::{Sort, SortKeyset};

/// Begins the cursor of a page before a row.
const BEFORE: char = '~';

/// The position of a row of a page of records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Position {
    /// In an order without a sort.
    Time(Keyset),
    /// In the order of a sort.
    Sorted(SortKeyset),
}

impl Position {
    /// Reads the cursor of a request for a page in this order. An empty one counts as none: generated clients send it
    /// for the first page.
    ///
    /// # Errors
    /// When it is not a cursor of such a page.
    pub fn read(cursor: Option<&str>, sort: Option<&Sort>) -> Result<Option<Self>, InvalidCursor> {
        let Some(cursor) = cursor.filter(|cursor| !cursor.is_empty()) else { return Ok(None) };
        Ok(Some(match sort {
            None => Self::Time(decode(cursor)?),
            Some(sort) => {
                let keyset = decode_sorted(cursor)?;
                if !sort.accepts(&keyset) {
                    return Err(InvalidCursor);
                }
                Self::Sorted(keyset)
            }
        }))
    }

    /// Reads a cursor of either direction. Returns whether it is one of [`Self::cursor_before`].
    ///
    /// # Errors
    /// Those of [`Self::read`].
    pub fn read_either(
        cursor: Option<&str>,
        sort: Option<&Sort>,
    ) -> Result<(Option<Self>, bool), InvalidCursor> {
        match cursor.and_then(|cursor| cursor.strip_prefix(BEFORE)) {
            Some("") => Err(InvalidCursor),
            Some(cursor) => Ok((Self::read(Some(cursor), sort)?, true)),
            None => Ok((Self::read(cursor, sort)?, false)),
        }
    }

    /// The cursor of the page that ends before this row.
    pub fn cursor_before(&self) -> String {
        format!("{BEFORE}{}", self.cursor())
    }

    /// The cursor of the page that begins after this row.
    pub fn cursor(&self) -> String {
        match self {
            Self::Time(keyset) => encode(*keyset),
            Self::Sorted(keyset) => encode_sorted(keyset),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::Direction;
    use crate::query::sort::SortValue;
    use belvedere_base::clock::Timestamp;

    #[test]
    fn a_position_is_one_of_the_order() {
        let sort = |key| Sort::parse(key, Direction::Asc).unwrap();
        for sort in [None, Some(sort("n"))] {
            for cursor in ["x", "AAAA", "2024-01-01T00:00:00.000000Z"] {
                assert_eq!(Position::read(Some(cursor), sort.as_ref()), Err(InvalidCursor), "{cursor}");
            }
            assert_eq!(Position::read(Some(""), sort.as_ref()), Ok(None));
            assert_eq!(Position::read(None, sort.as_ref()), Ok(None));
        }
        let plain = Position::Time(Keyset { indexed_at: Timestamp(1), id: 2 });
        let text =
            Position::Sorted(SortKeyset { value: SortValue::Text("x".into()), then: Vec::new(), id: 1 });
        let read =
            |position: &Position, sort: Option<Sort>| Position::read(Some(&position.cursor()), sort.as_ref());
        assert_eq!(read(&plain, None), Ok(Some(plain.clone())));
        assert_eq!(read(&text, None), Err(InvalidCursor));
        for key in ["did", "v"] {
            assert_eq!(read(&text, Some(sort(key))), Ok(Some(text.clone())));
        }
        for position in [&plain, &text] {
            assert_eq!(read(position, Some(sort("indexed_at"))), Err(InvalidCursor));
        }
        let several =
            |keys: &[&'static str]| Sort::parse_keys(keys.iter().map(|key| (*key, Direction::Asc))).unwrap();
        let then = vec![SortValue::Missing, SortValue::Number("1".into())];
        let of_three = Position::Sorted(SortKeyset { value: SortValue::Boolean(true), then, id: 3 });
        assert_eq!(read(&of_three, several(&["a", "b", "indexed_at"])), Ok(Some(of_three.clone())));
        for keys in
            [&["a", "b"][..], &["a", "indexed_at", "b"], &["did", "b", "c"], &["a", "b", "c", "d"], &["a"]]
        {
            assert_eq!(read(&of_three, several(keys)), Err(InvalidCursor), "{keys:?}");
        }
        assert_eq!(read(&text, several(&["a", "b"])), Err(InvalidCursor));
    }

    #[test]
    fn a_cursor_has_a_direction() {
        let position = Position::Time(Keyset { indexed_at: Timestamp(1), id: 2 });
        let (after, before) = (position.cursor(), position.cursor_before());
        let read = |text: &str| Position::read_either(Some(text), None);
        assert_eq!(read(&after), Ok((Some(position.clone()), false)));
        assert_eq!(read(&before), Ok((Some(position), true)));
        assert_eq!(Position::read_either(None, None), Ok((None, false)));
        assert_eq!(read(""), Ok((None, false)));
        for text in ["~", &format!("~{before}"), &format!("{after}~"), "~x"] {
            assert_eq!(read(text), Err(InvalidCursor), "{text}");
        }
        assert_eq!(
            Position::read(Some(&before), None),
            Err(InvalidCursor),
            "a list that only pages forwards"
        );
    }
}
