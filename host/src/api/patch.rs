//! A field of a partial update: absent, null, or a value.

use serde::{Deserialize, Deserializer};

/// Absent leaves the stored value, null clears it, a value replaces it. Use with `#[serde(default)]`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Patch<T> {
    #[default]
    Keep,
    Clear,
    Set(T),
}

impl<T> Patch<T> {
    /// `None` keeps, `Some(None)` clears: the shape that the store takes.
    pub fn into_nested(self) -> Option<Option<T>> {
        match self {
            Self::Keep => None,
            Self::Clear => Some(None),
            Self::Set(value) => Some(Some(value)),
        }
    }

    pub fn is_keep(&self) -> bool {
        matches!(self, Self::Keep)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Patch<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Option::deserialize(deserializer)?.map_or(Self::Clear, Self::Set))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Deserialize)]
    struct Body {
        #[serde(default)]
        a: Patch<i64>,
    }

    #[test]
    fn tells_absent_null_and_a_value_apart() {
        let read = |text| serde_json::from_str::<Body>(text).unwrap().a;
        assert_eq!(read("{}"), Patch::Keep);
        assert_eq!(read(r#"{"a":null}"#), Patch::Clear);
        assert_eq!(read(r#"{"a":3}"#), Patch::Set(3));
        assert!(serde_json::from_str::<Body>(r#"{"a":"x"}"#).is_err());
    }
}
