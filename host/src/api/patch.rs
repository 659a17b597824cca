//! Deserializes a field of a partial update: absent, null, or a value.

use serde::{Deserialize, Deserializer};

use crate::store::Patch;

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
