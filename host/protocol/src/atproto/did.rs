//! Parses DIDs (decentralized identifiers).

use std::borrow::Borrow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{SyntaxError, typed};

/// The protocol's limit on a DID's length, in bytes.
const MAX_BYTES: usize = 2048;

/// Characters of a did:plc after `did:plc:`: base32 of 15 bytes.
const PLC_CHARACTERS: usize = 24;

/// Characters of a refused text that a message shows: the message is returned to the caller.
const MAX_SHOWN: usize = 80;

/// Error for a text that is not the DID of an account.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum NotAnAccount {
    #[error("{0:?} is not a DID, like did:plc:… or did:web:…")]
    Malformed(String),
    #[error("{0:?} is not a did:plc: 24 characters from a to z and 2 to 7 follow did:plc:")]
    Plc(String),
    #[error("{0:?} is not a did:web of a host, like did:web:example.com")]
    Web(String),
    #[error("{0:?} can't be an account's DID: that is a did:plc or a did:web")]
    Method(String),
}

/// A DID in the form that atproto allows: `did:<method>:<identifier>`. Cheap to clone.
///
/// `shrike` has such a type too, but rejects `%` in identifiers, and so `did:web:localhost%3A2583`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema)]
#[schemars(inline, with = "String", description = "", extend("format" = "did"))]
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

    /// Parses the DID of an account as a person typed it, more strictly than [`Self::try_from`], which accepts every DID
    /// of the network: a did:plc has exactly 24 characters of base32, a did:web names a host.
    ///
    /// # Errors
    /// Says what is wrong.
    pub fn parse_account(text: &str) -> Result<Self, NotAnAccount> {
        let text = &*typed(text);
        let shown = || text.chars().take(MAX_SHOWN).collect();
        let did = Self::try_from(text).map_err(|_| NotAnAccount::Malformed(shown()))?;
        let id = did.identifier();
        match did.method() {
            "plc"
                if id.len() == PLC_CHARACTERS
                    && id.bytes().all(|b| matches!(b, b'a'..=b'z' | b'2'..=b'7')) =>
            {
                Ok(did)
            }
            "plc" => Err(NotAnAccount::Plc(shown())),
            "web" if did.web_authority().is_some() => Ok(did),
            "web" => Err(NotAnAccount::Web(shown())),
            _ => Err(NotAnAccount::Method(shown())),
        }
    }

    /// The host of a did:web, with its port, as a URL has it. `None` for another method, and for a did:web with a path,
    /// which atproto does not allow.
    pub fn web_authority(&self) -> Option<String> {
        let id = self.identifier();
        if self.method() != "web" || id.contains(':') {
            return None;
        }
        let mut authority = id.to_ascii_lowercase();
        for (encoded, plain) in [("%3a", ":"), ("%5b", "["), ("%5d", "]")] {
            authority = authority.replace(encoded, plain);
        }
        (!authority.contains('%')).then_some(authority)
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

/// Whether a text may follow `#` in the name of a service: it is the fragment of a URI (RFC 3986 §3.5).
pub fn is_service_fragment(text: &str) -> bool {
    let is_allowed = |b: u8| b.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@/?%".contains(&b);
    !text.is_empty() && text.bytes().all(is_allowed)
}

impl TryFrom<&str> for Did {
    type Error = SyntaxError;

    fn try_from(text: &str) -> Result<Self, SyntaxError> {
        if Self::is_valid(text) {
            return Ok(Self(text.into()));
        }
        let shown: String = text.chars().take(MAX_SHOWN).collect();
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
    fn an_accounts_did_is_strict() {
        for good in ["did:plc:ewvi7nxzyoun6zhxrhs64oiz", "did:web:example.com", "did:web:localhost%3A2583"] {
            assert_eq!(Did::parse_account(good).map(|did| did.to_string()).as_deref(), Ok(good));
        }
        let wrong = |text: &str| Did::parse_account(text).unwrap_err();
        for plc in [
            "did:plc:YOURS",
            "did:plc:ewvi7nxzyoun6zhxrhs64oi",
            "did:plc:ewvi7nxzyoun6zhxrhs64oi1",
            "did:plc:EWVI7NXZYOUN6ZHXRHS64OIZ",
        ] {
            assert_eq!(wrong(plc), NotAnAccount::Plc(plc.to_owned()));
        }
        assert!(matches!(wrong("did:web:example.com:alice"), NotAnAccount::Web(_)));
        assert!(matches!(wrong("did:key:zabc"), NotAnAccount::Method(_)));
        assert!(matches!(wrong("alice.example"), NotAnAccount::Malformed(_)));
        let long = wrong(&format!("did:plc:{}", "a".repeat(500))).to_string();
        assert!(long.len() < 200, "{long}");
    }

    #[test]
    fn a_did_web_names_a_host() {
        let authority = |text: &str| Did::try_from(text).unwrap().web_authority();
        for (did, expected) in [
            ("did:web:Example.com", Some("example.com")),
            ("did:web:example.com%3A8443", Some("example.com:8443")),
            ("did:web:%5B%3A%3A1%5D%3A3000", Some("[::1]:3000")),
            ("did:web:example.com:alice", None),
            ("did:web:example.com%2Falice", None),
            ("did:plc:example", None),
        ] {
            assert_eq!(authority(did).as_deref(), expected, "{did}");
        }
    }

    #[test]
    fn has_a_maximum_length() {
        let long = format!("did:plc:{}", "a".repeat(MAX_BYTES - 8));
        assert!(Did::is_valid(&long));
        assert!(!Did::is_valid(&format!("{long}a")));
    }
}
