//! Parses DIDs (decentralized identifiers).

use std::borrow::Borrow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::SyntaxError;

/// The protocol's limit on a DID's length, in bytes.
const MAX_BYTES: usize = 2048;

/// A DID in the form that atproto allows: `did:<method>:<identifier>`. Cheap to clone.
///
/// `shrike` has such a type too, but rejects `%` in identifiers, and so `did:web:localhost%3A2583`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Did(Arc<str>);

impl Did {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// `plc` of `did:plc:abc`.
    pub fn method(&self) -> &str {
        self.split().0
    }

    /// `abc` of `did:plc:abc`.
    pub fn identifier(&self) -> &str {
        self.split().1
    }

    fn split(&self) -> (&str, &str) {
        self.0.strip_prefix("did:").and_then(|rest| rest.split_once(':')).unwrap_or_default()
    }

    /// Whether a text is a DID. Allocates nothing.
    pub fn is_valid(text: &str) -> bool {
        let Some((method, id)) = text.strip_prefix("did:").and_then(|rest| rest.split_once(':')) else {
            return false;
        };
        text.len() <= MAX_BYTES
            && !method.is_empty()
            && method.bytes().all(|b| b.is_ascii_lowercase())
            && id.bytes().all(|b| b.is_ascii_alphanumeric() || b"._:%-".contains(&b))
            && id.bytes().last().is_some_and(|b| b != b':' && b != b'%')
    }
}

impl TryFrom<&str> for Did {
    type Error = SyntaxError;

    fn try_from(text: &str) -> Result<Self, SyntaxError> {
        if Self::is_valid(text) {
            return Ok(Self(text.into()));
        }
        // The message is returned to the caller, so it holds only the beginning of the text.
        let shown: String = text.chars().take(80).collect();
        Err(SyntaxError::InvalidDid(format!("{shown:?}")))
    }
}

impl FromStr for Did {
    type Err = SyntaxError;

    fn from_str(text: &str) -> Result<Self, SyntaxError> {
        Self::try_from(text)
    }
}

impl fmt::Display for Did {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Did {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl AsRef<str> for Did {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for Did {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl Serialize for Did {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Did {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(d)?;
        Self::try_from(&*text).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn has_a_method_and_an_identifier() {
        let did = Did::try_from("did:web:localhost%3A2583").unwrap();
        assert_eq!((did.method(), did.identifier()), ("web", "localhost%3A2583"));
        assert_eq!(serde_json::to_string(&did).unwrap(), r#""did:web:localhost%3A2583""#);
    }

    #[test]
    fn has_a_maximum_length() {
        let long = format!("did:plc:{}", "a".repeat(MAX_BYTES - 8));
        assert!(Did::is_valid(&long));
        assert!(!Did::is_valid(&format!("{long}a")));
    }
}
