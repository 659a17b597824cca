//! The record keys that a record lexicon allows: its `key` (atproto, Record Key Types).

use super::super::{Nsid, RecordKey, Tid};

/// The record keys of a collection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum KeyType {
    Tid,
    Nsid,
    /// Any record key. Lexicons without `key` count as this.
    #[default]
    Any,
    /// This one: a repo has one record of the collection.
    Literal(RecordKey),
}

/// Error for a record key that its collection does not allow.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WrongKey {
    #[error("the record key {0:?} is not a TID")]
    Tid(String),
    #[error("the record key {0:?} is not an NSID")]
    Nsid(String),
    #[error("the record key is {0:?}, and records of this collection have the key \"{1}\"")]
    Literal(String, RecordKey),
    #[error("the record key (rkey) is missing: records of this collection have an NSID as their key")]
    MissingNsid,
    #[error("the record key (rkey) is missing: records of this collection have the key \"{0}\"")]
    MissingLiteral(RecordKey),
}

impl KeyType {
    /// Reads `tid`, `nsid`, `any` or `literal:<record key>`.
    pub fn parse(text: &str) -> Option<Self> {
        Some(match (text, text.strip_prefix("literal:")) {
            (_, Some(key)) => Self::Literal(RecordKey::try_from(key).ok()?),
            ("tid", _) => Self::Tid,
            ("nsid", _) => Self::Nsid,
            ("any", _) => Self::Any,
            _ => return None,
        })
    }

    /// The only key, if there is one.
    pub fn literal(&self) -> Option<&RecordKey> {
        match self {
            Self::Literal(key) => Some(key),
            Self::Tid | Self::Nsid | Self::Any => None,
        }
    }

    /// Checks the key of a record; `None` is a new record for which its PDS generates the key, which is a TID.
    ///
    /// # Errors
    /// When the lexicon does not allow the key.
    pub fn check(&self, key: Option<&str>) -> Result<(), WrongKey> {
        let wrong = match (self, key) {
            (Self::Tid, Some(key)) if Tid::try_from(key).is_err() => WrongKey::Tid(key.to_owned()),
            (Self::Nsid, Some(key)) if Nsid::try_from(key).is_err() => WrongKey::Nsid(key.to_owned()),
            (Self::Literal(only), Some(key)) if key != only.as_str() => {
                WrongKey::Literal(key.to_owned(), only.clone())
            }
            (Self::Nsid, None) => WrongKey::MissingNsid,
            (Self::Literal(only), None) => WrongKey::MissingLiteral(only.clone()),
            _ => return Ok(()),
        };
        Err(wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str) -> RecordKey {
        RecordKey::try_from(text).unwrap()
    }

    #[test]
    fn each_key_type_allows_its_keys() {
        let literal = KeyType::Literal(key("self"));
        for (kind, allowed, forbidden) in [
            (
                KeyType::Tid,
                &["3jzfcijpj2z2a"][..],
                &["self", "3jzfcijpj2z2", "3JZFCIJPJ2Z2A", "zzzzzzzzzzzzz"][..],
            ),
            (KeyType::Nsid, &["com.example.feature"], &["feature", "3jzfcijpj2z2a", "com.example"]),
            (KeyType::Any, &["self", "3jzfcijpj2z2a", "com.example.feature", "a:b~c"], &[]),
            (literal.clone(), &["self"], &["Self", "selfish", "3jzfcijpj2z2a"]),
        ] {
            for text in allowed {
                assert_eq!(kind.check(Some(text)), Ok(()), "{kind:?} {text}");
            }
            for text in forbidden {
                let wrong = kind.check(Some(text)).unwrap_err().to_string();
                assert!(wrong.contains(&format!("{text:?}")), "{kind:?} {wrong}");
            }
        }
        let missing = |kind: &KeyType| kind.check(None);
        assert_eq!([KeyType::Tid, KeyType::Any].each_ref().map(missing), [Ok(()), Ok(())]);
        assert_eq!(missing(&KeyType::Nsid), Err(WrongKey::MissingNsid));
        assert_eq!(missing(&literal), Err(WrongKey::MissingLiteral(key("self"))));
    }

    #[test]
    fn only_the_key_types_of_the_protocol_are_read() {
        assert_eq!(KeyType::parse("literal:self"), Some(KeyType::Literal(key("self"))));
        assert_eq!(
            ["tid", "nsid", "any"].map(KeyType::parse),
            [Some(KeyType::Tid), Some(KeyType::Nsid), Some(KeyType::Any)]
        );
        for other in ["", "TID", "literal", "literal:", "literal:..", "literal:a/b", "uuid"] {
            assert_eq!(KeyType::parse(other), None, "{other}");
        }
    }
}
