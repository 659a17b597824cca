//! Parses the sort order of a `db.query`.

use super::Keyset;
use super::path::{InvalidPath, Path};
use belvedere_base::clock::Timestamp;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sort {
    pub key: SortKey,
    pub direction: Direction,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SortKey {
    IndexedAt,
    Did,
    Uri,
    /// By JSON type (numbers, strings, booleans), then by value, strings by their first [`MAX_TEXT_CHARS`]
    /// characters. Rows without such a value come last in both directions. Ties go by row id.
    Field(Path),
}

/// Strings are sorted by this many characters, then by row id, so that cursors, which contain the value, stay short.
pub const MAX_TEXT_CHARS: usize = 256;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    Asc,
    Desc,
}

/// The position of a row in a custom order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SortKeyset {
    pub value: SortValue,
    pub id: i64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SortValue {
    /// Decimal text of an integer or a float.
    Number(String),
    Text(String),
    Boolean(bool),
    /// No value at the path, or one that has no order.
    Missing,
}

impl SortKeyset {
    /// The position of a row in the order of [`SortKey::IndexedAt`].
    pub(crate) fn of_time(Keyset { indexed_at, id }: Keyset) -> Self {
        Self { value: SortValue::Number(indexed_at.0.to_string()), id }
    }

    /// The reverse of [`Self::of_time`].
    pub(crate) fn as_time(&self) -> Option<Keyset> {
        let SortValue::Number(text) = &self.value else { return None };
        Some(Keyset { indexed_at: Timestamp(text.parse().ok()?), id: self.id })
    }
}

impl Sort {
    /// Parses `key` as scripts write it: `indexed_at`, `did`, `uri`, or a path.
    ///
    /// # Errors
    /// When it is not one of these.
    pub fn parse(key: &str, direction: Direction) -> Result<Self, InvalidPath> {
        let key = match key {
            "indexed_at" => SortKey::IndexedAt,
            "did" => SortKey::Did,
            "uri" => SortKey::Uri,
            path => SortKey::Field(Path::parse(path)?),
        };
        Ok(Self { key, direction })
    }

    /// Whether a cursor with this value can belong to this order.
    pub fn accepts(&self, value: &SortValue) -> bool {
        match (&self.key, value) {
            (SortKey::IndexedAt, SortValue::Number(text)) => text.parse::<i64>().is_ok(),
            (SortKey::Did | SortKey::Uri, value) => matches!(value, SortValue::Text(_)),
            (SortKey::Field(_), _) => true,
            (SortKey::IndexedAt, _) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_column_names_or_paths() {
        let key = |text| Sort::parse(text, Direction::Asc).map(|sort| sort.key);
        assert_eq!(key("uri"), Ok(SortKey::Uri));
        assert_eq!(key("a.b"), Ok(SortKey::Field(Path::parse("a.b").unwrap())));
        assert_eq!(key("$type"), Err(InvalidPath));
    }
}
