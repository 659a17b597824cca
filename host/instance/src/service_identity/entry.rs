//! A service in the DID document, and which methods its callers may call.

use std::collections::HashSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Characters of a fragment, `#` included. The PLC directory limits the names of services and keys to 32.
const MAX_FRAGMENT: usize = 33;

/// The methods that calls to a service may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AccessMode {
    All,
    /// Those that are bound to the service.
    Allowlist,
    Disabled,
}

impl AccessMode {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Allowlist => "allowlist",
            Self::Disabled => "disabled",
        }
    }

    /// An unknown name, of a later version for example, grants nothing.
    pub fn from_stored(name: &str) -> Self {
        [Self::All, Self::Allowlist].into_iter().find(|mode| mode.as_str() == name).unwrap_or(Self::Disabled)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// `#` and a name.
    pub fragment: String,
    pub service_type: String,
    pub access: AccessMode,
    /// The bound methods.
    pub methods: HashSet<String>,
}

impl Entry {
    pub fn permits(&self, method: &str) -> bool {
        match self.access {
            AccessMode::All => true,
            AccessMode::Allowlist => self.methods.contains(method),
            AccessMode::Disabled => false,
        }
    }
}

/// Error for a text that is not a fragment for the DID document. The text is for the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidFragment {
    #[error("fragment_id must be # and 1 to 32 of A-Z, a-z, 0-9 and _")]
    Form,
    #[error("{0} is reserved: PDSs and this server use it for another purpose")]
    Reserved(&'static str),
}

/// Fragments with a fixed meaning in the documents of accounts: the PDS, and the key of the account.
const RESERVED: [&str; 2] = ["#atproto_pds", "#atproto"];

/// Checks the fragment of a service or a verification method.
///
/// # Errors
/// When the text has another form, or the fragment belongs to the account itself.
pub fn parse_fragment(text: &str) -> Result<&str, InvalidFragment> {
    let name = text.strip_prefix('#').ok_or(InvalidFragment::Form)?;
    let well_formed = !name.is_empty()
        && text.len() <= MAX_FRAGMENT
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if !well_formed {
        return Err(InvalidFragment::Form);
    }
    match RESERVED.into_iter().find(|reserved| *reserved == text) {
        Some(reserved) => Err(InvalidFragment::Reserved(reserved)),
        None => Ok(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fragments_are_a_hash_and_a_name() {
        for good in ["#bsky_appview", "#a", "#atproto_labeler", "#A1_", &format!("#{}", "x".repeat(32))] {
            assert_eq!(parse_fragment(good), Ok(good));
        }
        for bad in ["", "#", "appview", "#a b", "#a#b", "#ä", "#a-b", "#a\0", &format!("#{}", "x".repeat(33))]
        {
            assert_eq!(parse_fragment(bad), Err(InvalidFragment::Form), "{bad}");
        }
        for reserved in RESERVED {
            assert_eq!(parse_fragment(reserved), Err(InvalidFragment::Reserved(reserved)));
        }
    }

    #[test]
    fn the_access_mode_decides_which_methods_are_permitted() {
        let entry = |access| Entry {
            fragment: "#a".to_owned(),
            service_type: "A".to_owned(),
            access,
            methods: HashSet::from(["com.example.bound".to_owned()]),
        };
        for (access, bound, other) in [
            (AccessMode::All, true, true),
            (AccessMode::Allowlist, true, false),
            (AccessMode::Disabled, false, false),
        ] {
            assert_eq!(AccessMode::from_stored(access.as_str()), access);
            let entry = entry(access);
            assert_eq!(
                (entry.permits("com.example.bound"), entry.permits("com.example.other")),
                (bound, other)
            );
        }
        assert_eq!(AccessMode::from_stored("some"), AccessMode::Disabled);
    }
}
