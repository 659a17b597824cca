//! Parses the sort order of a `db.query`.

use super::Keyset;
use super::path::{InvalidPath, Path};
use belvedere_base::clock::Timestamp;

/// An order of records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sort {
    pub key: SortKey,
    pub direction: Direction,
    /// Further keys, each for the rows that are equal by all keys before it.
    pub then: Vec<(SortKey, Direction)>,
}

/// The maximum number of keys of an order. Each is computed for every row that the query scans, and its value is in the
/// cursor.
pub const MAX_KEYS: usize = 4;

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

impl Direction {
    pub(crate) fn reversed(self) -> Self {
        match self {
            Self::Asc => Self::Desc,
            Self::Desc => Self::Asc,
        }
    }
}

/// The position of a row in a custom order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SortKeyset {
    pub value: SortValue,
    /// The values of the further keys.
    pub then: Vec<SortValue>,
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

/// Error for an invalid order. The text is for the script's author.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidSort {
    #[error("invalid sort field {0:?}")]
    Key(String),
    #[error("sort has too many keys (at most {MAX_KEYS})")]
    TooMany,
}

impl SortKeyset {
    /// The position of a row in the order of [`SortKey::IndexedAt`].
    pub(crate) fn of_time(Keyset { indexed_at, id }: Keyset) -> Self {
        Self { value: SortValue::Number(indexed_at.0.to_string()), then: Vec::new(), id }
    }

    /// The reverse of [`Self::of_time`].
    pub(crate) fn as_time(&self) -> Option<Keyset> {
        let SortValue::Number(text) = &self.value else { return None };
        Some(Keyset { indexed_at: Timestamp(text.parse().ok()?), id: self.id })
    }

    /// The values of all keys, in their order.
    pub(crate) fn values(&self) -> impl Iterator<Item = &SortValue> {
        std::iter::once(&self.value).chain(&self.then)
    }
}

impl SortKey {
    /// Parses a key as scripts write it: `indexed_at`, `did`, `uri`, or a path.
    fn parse(text: &str) -> Result<Self, InvalidPath> {
        Ok(match text {
            "indexed_at" => Self::IndexedAt,
            "did" => Self::Did,
            "uri" => Self::Uri,
            path => Self::Field(Path::parse(path)?),
        })
    }

    /// Whether a row can have this value.
    fn accepts(&self, value: &SortValue) -> bool {
        match (self, value) {
            (Self::IndexedAt, SortValue::Number(text)) => text.parse::<i64>().is_ok(),
            (Self::Did | Self::Uri, value) => matches!(value, SortValue::Text(_)),
            (Self::Field(_), _) => true,
            (Self::IndexedAt, _) => false,
        }
    }
}

impl Sort {
    /// The order by one key, as scripts write it: `indexed_at`, `did`, `uri`, or a path.
    ///
    /// # Errors
    /// When it is not one of these.
    pub fn parse(key: &str, direction: Direction) -> Result<Self, InvalidPath> {
        Ok(Self { key: SortKey::parse(key)?, direction, then: Vec::new() })
    }

    /// The order by several keys. Without a key there is no order.
    ///
    /// # Errors
    /// When one of them is not a key, or they are too many.
    pub fn parse_keys<'a>(
        keys: impl IntoIterator<Item = (&'a str, Direction)>,
    ) -> Result<Option<Self>, InvalidSort> {
        let mut sort: Option<Self> = None;
        for (key, direction) in keys {
            let parsed = SortKey::parse(key).map_err(|_| InvalidSort::Key(key.to_owned()))?;
            match &mut sort {
                None => sort = Some(Self { key: parsed, direction, then: Vec::new() }),
                Some(sort) if 1 + sort.then.len() < MAX_KEYS => sort.then.push((parsed, direction)),
                Some(_) => return Err(InvalidSort::TooMany),
            }
        }
        Ok(sort)
    }

    /// All keys, in their order.
    pub(crate) fn keys(&self) -> impl Iterator<Item = (&SortKey, Direction)> {
        let then = self.then.iter().map(|(key, direction)| (key, *direction));
        std::iter::once((&self.key, self.direction)).chain(then)
    }

    /// Whether a cursor with these values can belong to this order.
    pub fn accepts(&self, keyset: &SortKeyset) -> bool {
        self.then.len() == keyset.then.len()
            && self.keys().zip(keyset.values()).all(|((key, _), value)| key.accepts(value))
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

    #[test]
    fn an_order_has_up_to_four_keys() {
        let of = |keys: &[&'static str]| Sort::parse_keys(keys.iter().map(|key| (*key, Direction::Asc)));
        assert_eq!(of(&[]), Ok(None));
        assert_eq!(of(&["n"]), Ok(Sort::parse("n", Direction::Asc).ok()));
        assert_eq!(of(&["n", "did", "a.b", "uri"]).map(|sort| sort.unwrap().keys().count()), Ok(4));
        assert_eq!(of(&["n", "did", "a.b", "uri", "m"]), Err(InvalidSort::TooMany));
        assert_eq!(of(&["n", "a b"]).unwrap_err().to_string(), "invalid sort field \"a b\"");
    }
}
