//! Policies and the list of apps as unions with `$type` (spaces.md §4).

use serde_json::{Value, json};

use crate::atproto::{Did, is_service_fragment};
use crate::spaces::access::{Policy, ServiceRef};
use crate::spaces::app_gate::AppAccess;

const PUBLIC: &str = "com.atproto.simplespace.defs#publicPolicy";
const MEMBER_LIST: &str = "com.atproto.simplespace.defs#memberListPolicy";
const MANAGING_APP: &str = "com.atproto.simplespace.defs#managingAppPolicy";
const OPEN: &str = "com.atproto.simplespace.defs#open";
const ALLOW_LIST: &str = "com.atproto.simplespace.defs#allowList";

/// The apps that a list may name. Every check walks the list.
pub const MAX_ALLOWED_APPS: usize = 1_000;

/// Error for a policy that this server can't follow.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
pub enum Unsupported {
    #[error("the policy is not a public, member list or managing app policy, or lacks a valid managingApp")]
    Policy,
    #[error("appAccess is neither open nor a list of at most {MAX_ALLOWED_APPS} client ids")]
    AppAccess,
}

impl Unsupported {
    /// The name of the error in a response with the status 400.
    pub fn name(self) -> &'static str {
        match self {
            Self::Policy => "UnsupportedPolicy",
            Self::AppAccess => "UnsupportedAppAccess",
        }
    }
}

/// Reads a read or write policy.
///
/// # Errors
/// For every other variant.
pub fn policy(value: &Value) -> Result<Policy, Unsupported> {
    match value["$type"].as_str() {
        Some(PUBLIC) => Ok(Policy::Public),
        Some(MEMBER_LIST) => Ok(Policy::MemberList),
        Some(MANAGING_APP) => {
            let app = value["managingApp"].as_str().and_then(|app| app.parse().ok());
            app.map(Policy::ManagingApp).ok_or(Unsupported::Policy)
        }
        _ => Err(Unsupported::Policy),
    }
}

/// The form of a policy in requests and responses.
pub fn policy_json(policy: &Policy) -> Value {
    match policy {
        Policy::Public => json!({ "$type": PUBLIC }),
        Policy::MemberList => json!({ "$type": MEMBER_LIST }),
        Policy::ManagingApp(app) => json!({ "$type": MANAGING_APP, "managingApp": app.to_string() }),
    }
}

/// Reads `appAccess`.
///
/// # Errors
/// For every other variant, and for a list that is too long.
pub fn app_access(value: &Value) -> Result<AppAccess, Unsupported> {
    match value["$type"].as_str() {
        Some(OPEN) => Ok(AppAccess::Open),
        Some(ALLOW_LIST) => allow_list(value),
        _ => Err(Unsupported::AppAccess),
    }
}

/// The list of an access that names its apps.
pub(in crate::spaces) fn allow_list(value: &Value) -> Result<AppAccess, Unsupported> {
    let allowed: Option<Vec<String>> = value["allowed"]
        .as_array()
        .filter(|allowed| allowed.len() <= MAX_ALLOWED_APPS)
        .and_then(|allowed| allowed.iter().map(|app| app.as_str().map(str::to_owned)).collect());
    allowed.map(AppAccess::AllowList).ok_or(Unsupported::AppAccess)
}

/// The form of `appAccess` in requests and responses.
pub fn app_access_json(access: &AppAccess) -> Value {
    match access {
        AppAccess::Open => json!({ "$type": OPEN }),
        AppAccess::AllowList(allowed) => json!({ "$type": ALLOW_LIST, "allowed": allowed }),
    }
}

impl std::str::FromStr for ServiceRef {
    type Err = Unsupported;

    /// Reads a DID, with the fragment of a service or without.
    fn from_str(text: &str) -> Result<Self, Unsupported> {
        let (did, fragment) = text.split_once('#').map_or((text, None), |(did, rest)| (did, Some(rest)));
        if !fragment.is_none_or(is_service_fragment) {
            return Err(Unsupported::Policy);
        }
        let did = Did::try_from(did).map_err(|_| Unsupported::Policy)?;
        Ok(Self { did, fragment: fragment.map(str::to_owned) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_round_trip() {
        for json in [
            json!({ "$type": PUBLIC }),
            json!({ "$type": MEMBER_LIST }),
            json!({ "$type": MANAGING_APP, "managingApp": "did:web:app.example" }),
            json!({ "$type": MANAGING_APP, "managingApp": "did:web:app.example#spaces" }),
        ] {
            assert_eq!(policy_json(&policy(&json).unwrap()), json);
        }
        for json in [
            json!({ "$type": OPEN }),
            json!({ "$type": ALLOW_LIST, "allowed": ["https://app.example/c.json"] }),
        ] {
            assert_eq!(app_access_json(&app_access(&json).unwrap()), json);
        }
    }

    #[test]
    fn other_forms_are_unsupported() {
        for wrong in [
            json!(null),
            json!("public"),
            json!({}),
            json!({ "$type": "com.atproto.simplespace.defs#other" }),
            json!({ "$type": MANAGING_APP }),
            json!({ "$type": MANAGING_APP, "managingApp": "app.example" }),
            json!({ "$type": MANAGING_APP, "managingApp": "did:web:app.example#" }),
            json!({ "$type": MANAGING_APP, "managingApp": "did:web:app.example#a#b" }),
        ] {
            assert_eq!(policy(&wrong).unwrap_err().name(), "UnsupportedPolicy", "{wrong}");
        }
        for wrong in [
            json!("open"),
            json!({ "type": "open" }),
            json!({ "$type": ALLOW_LIST }),
            json!({ "$type": ALLOW_LIST, "allowed": [1] }),
            json!({ "$type": ALLOW_LIST, "allowed": vec!["x"; MAX_ALLOWED_APPS + 1] }),
        ] {
            assert_eq!(app_access(&wrong).unwrap_err().name(), "UnsupportedAppAccess", "{wrong}");
        }
    }
}
