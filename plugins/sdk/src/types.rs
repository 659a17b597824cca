//! The values of the contract, the same for all worlds.

use serde_json::Value;

/// The beginning of a sign-in.
#[derive(Clone, Debug, PartialEq)]
pub struct Start {
    /// Must come back in the callback's parameters, or in the redirect URI of protocols without a state.
    pub state: String,
    pub redirect_uri: String,
    pub config: Value,
}

/// The end of a sign-in.
#[derive(Clone, Debug, PartialEq)]
pub struct Callback {
    pub state: String,
    pub redirect_uri: String,
    /// The query parameters.
    pub params: Vec<(String, String)>,
    pub config: Value,
}

impl Callback {
    /// The first parameter of that name.
    pub fn param(&self, name: &str) -> Option<&str> {
        self.params.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

/// Tokens of an account at the service.
#[derive(Clone, PartialEq)]
pub struct Tokens {
    pub access: String,
    pub refresh: Option<String>,
    pub token_type: String,
    pub scope: Option<String>,
    pub expiry: Expiry,
}

impl Tokens {
    /// Tokens that never expire.
    pub fn lasting(access: impl Into<String>) -> Self {
        Self {
            access: access.into(),
            refresh: None,
            token_type: "Bearer".to_owned(),
            scope: None,
            expiry: Expiry::Never,
        }
    }
}

/// Shows no tokens.
impl std::fmt::Debug for Tokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tokens").field("expiry", &self.expiry).finish_non_exhaustive()
    }
}

/// The time at which tokens expire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expiry {
    Never,
    /// RFC 3339.
    At(String),
    InSeconds(u32),
}

/// The account at the service.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Profile {
    pub account_id: String,
    pub display_name: Option<String>,
    pub profile_url: Option<String>,
    pub avatar_url: Option<String>,
}

/// A record that a sync writes.
#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    pub collection: String,
    pub value: Value,
    /// Becomes the record key, so that the next sync replaces the record.
    pub dedup_key: Option<String>,
    /// Whether the instance signs the record.
    pub sign: bool,
}

/// A page of a sync.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Page {
    pub items: Vec<Item>,
    /// The cursor of the next page; none at the end.
    pub next: Option<String>,
}

/// A function of a library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    pub name: String,
    /// Annotations of LuaLS: `text: string`, `limit?: integer`.
    pub params: Vec<String>,
    pub help: Option<String>,
}

impl Function {
    pub fn new(name: &str, params: &[&str], help: &str) -> Self {
        Self {
            name: name.to_owned(),
            params: params.iter().map(|&param| param.to_owned()).collect(),
            help: Some(help.to_owned()),
        }
    }
}

/// The caller of a library's function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Context {
    /// The DID of the script's caller.
    pub caller: Option<String>,
    pub has_session: bool,
}
