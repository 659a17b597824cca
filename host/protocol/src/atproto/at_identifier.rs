//! Accounts as callers name them: by a DID or a handle (`at-identifier` of the lexicon language).

use super::{Did, Handle};

/// An account, by its DID or its handle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AtIdentifier {
    Did(Did),
    Handle(Handle),
}

impl AtIdentifier {
    /// `None` for a text that is neither.
    pub fn parse(text: &str) -> Option<Self> {
        let did = Did::try_from(text).ok().map(Self::Did);
        did.or_else(|| Handle::try_from(text).ok().map(Self::Handle))
    }

    /// The handle in the place of the DID of an AT URI, and what follows it. `None` for any other text.
    pub fn handle_of_uri(text: &str) -> Option<(Handle, &str)> {
        let rest = text.strip_prefix("at://")?;
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        Some((Handle::try_from(authority).ok()?, path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_is_named_by_a_did_or_a_handle() {
        let did = Did::try_from("did:plc:abc").unwrap();
        assert_eq!(AtIdentifier::parse("did:plc:abc"), Some(AtIdentifier::Did(did)));
        let named = AtIdentifier::parse("alice.example");
        assert!(matches!(named, Some(AtIdentifier::Handle(handle)) if handle.as_str() == "alice.example"));
        for neither in ["", "alice", "@alice.example", "did:plc:", "alice.example\0", "at://alice.example"] {
            assert_eq!(AtIdentifier::parse(neither), None, "{neither:?}");
        }
    }

    #[test]
    fn a_uri_may_have_a_handle() {
        for (uri, path) in [
            ("at://alice.example", ""),
            ("at://alice.example/com.example.note", "/com.example.note"),
            ("at://alice.example/com.example.note/k", "/com.example.note/k"),
        ] {
            let (handle, rest) = AtIdentifier::handle_of_uri(uri).unwrap();
            assert_eq!((handle.as_str(), rest), ("alice.example", path));
        }
        for other in ["at://did:plc:abc/a.b.c/k", "alice.example", "at://", "at://alice", "at://a.b\0/x"] {
            assert_eq!(AtIdentifier::handle_of_uri(other), None, "{other:?}");
        }
    }
}
