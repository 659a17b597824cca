//! Deserializes a field of a partial update: absent, null, or a value.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};

/// A field of a partial update.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema)]
#[schemars(inline, with = "Option<T>", description = "")]
pub enum Patch<T> {
    /// The update does not contain the field: the stored value stays.
    #[default]
    Keep,
    /// `null`: the stored value is removed; the instance default applies, if there is one.
    Clear,
    Set(T),
}

impl<T> Patch<T> {
    /// Whether the update contains the field.
    pub(super) fn is_set(&self) -> bool {
        !matches!(self, Self::Keep)
    }

    pub(super) fn value(&self) -> Option<&T> {
        match self {
            Self::Set(value) => Some(value),
            Self::Keep | Self::Clear => None,
        }
    }
}

/// Null clears and a value sets. An absent field must give the default, so the field needs `#[serde(default)]`.
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
    fn distinguishes_absent_null_and_a_value() {
        let read = |text| serde_json::from_str::<Body>(text).unwrap().a;
        assert_eq!(read("{}"), Patch::Keep);
        assert_eq!(read(r#"{"a":null}"#), Patch::Clear);
        assert_eq!(read(r#"{"a":3}"#), Patch::Set(3));
        assert!(serde_json::from_str::<Body>(r#"{"a":"x"}"#).is_err());
    }
}
