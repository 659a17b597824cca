//! Parses and compares the OAuth scopes of atproto: what an application may do in a user's name.
//!
//! A scope string is a list of scopes separated by spaces (RFC 6749 §3.3), or where a person wrote it by any white
//! space; a scope is `resource:positional?name=value`
//! (atproto permission specification). A [`Need`] is a single permission, which [`Scopes::allows`] checks.
//! [`Scopes::covers`] compares two sets by checking each need of the other set.

mod include;
mod intersection;
mod need;
mod permission;
mod space;
mod text;

#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;

use crate::atproto::Did;

pub use include::{Include, PermissionSet};
pub use need::Need;
pub use permission::{
    Account, AccountAction, AccountAttribute, Blob, Identity, IdentityAttribute, Names, Repo, RepoAction, Rpc,
};
pub use space::{Space, SpaceAction, SpaceAuthority, SpaceManage, SpacePlace};

/// The maximum length of a scope string, in bytes: authorization servers accept no more in a request.
pub const MAX_BYTES: usize = 8 << 10;

/// Error for an invalid scope string. The text is for its author.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScopeError {
    #[error("scopes are longer than {MAX_BYTES} bytes")]
    TooLong,
    #[error("scopes must be printable ASCII without quotes and backslashes, separated by white space")]
    Character,
    #[error("the scope {scope} is not valid: {why}")]
    Invalid { scope: String, why: &'static str },
}

/// One scope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The session is an atproto session: the application learns the account's DID.
    Atproto,
    /// All writes to the repo, all blob uploads, and all methods except `chat.bsky.*`: the rights of an app password.
    TransitionGeneric,
    TransitionEmail,
    TransitionChat,
    Repo(Repo),
    Rpc(Rpc),
    Blob(Blob),
    Account(Account),
    Identity(Identity),
    Space(Space),
    Include(Include),
    /// An unknown scope. It is passed on unchanged and allows nothing.
    Other(String),
}

const STATIC: [(&str, Scope); 4] = [
    ("atproto", Scope::Atproto),
    ("transition:generic", Scope::TransitionGeneric),
    ("transition:email", Scope::TransitionEmail),
    ("transition:chat.bsky", Scope::TransitionChat),
];

impl FromStr for Scope {
    type Err = ScopeError;

    /// # Errors
    /// For malformed text, and for invalid parameters of a known resource.
    fn from_str(scope: &str) -> Result<Self, ScopeError> {
        if let Some((_, known)) = STATIC.iter().find(|(name, _)| *name == scope) {
            return Ok(known.clone());
        }
        let invalid = |why| ScopeError::Invalid { scope: scope.to_owned(), why };
        let scope_text = text::ScopeText::parse(scope).map_err(invalid)?;
        match scope_text.resource {
            "repo" => Repo::read(scope_text).map(Self::Repo),
            "rpc" => Rpc::read(scope_text).map(Self::Rpc),
            "blob" => Blob::read(scope_text).map(Self::Blob),
            "account" => Account::read(scope_text).map(Self::Account),
            "identity" => Identity::read(scope_text).map(Self::Identity),
            "space" => Space::read(scope_text).map(Self::Space),
            "include" => Include::read(scope_text).map(Self::Include),
            _ => Ok(Self::Other(scope.to_owned())),
        }
        .map_err(invalid)
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Repo(repo) => repo.fmt(f),
            Self::Rpc(rpc) => rpc.fmt(f),
            Self::Blob(blob) => blob.fmt(f),
            Self::Account(account) => account.fmt(f),
            Self::Identity(identity) => identity.fmt(f),
            Self::Space(space) => space.fmt(f),
            Self::Include(include) => include.fmt(f),
            Self::Other(text) => f.write_str(text),
            fixed => {
                STATIC.iter().filter(|(_, scope)| scope == fixed).try_for_each(|(name, _)| f.write_str(name))
            }
        }
    }
}

/// A set of scopes, in the order of the scope string.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scopes(Vec<Scope>);

impl FromStr for Scopes {
    type Err = ScopeError;

    /// Parses a scope string. An empty string is the empty set.
    ///
    /// # Errors
    /// Names the first invalid scope.
    fn from_str(text: &str) -> Result<Self, ScopeError> {
        if text.len() > MAX_BYTES {
            return Err(ScopeError::TooLong);
        }
        let is_allowed = |b: u8| b.is_ascii_whitespace() || matches!(b, 0x21 | 0x23..=0x5b | 0x5d..=0x7e);
        if !text.bytes().all(is_allowed) {
            return Err(ScopeError::Character);
        }
        text.split_ascii_whitespace().map(str::parse).collect()
    }
}

/// The scope string with single spaces between its scopes, as OAuth servers require and as it is stored.
pub fn with_single_spaces(text: &str) -> String {
    text.split_ascii_whitespace().collect::<Vec<_>>().join(" ")
}

impl FromIterator<Scope> for Scopes {
    fn from_iter<T: IntoIterator<Item = Scope>>(scopes: T) -> Self {
        let mut set = Self::default();
        for scope in scopes {
            set.add(scope);
        }
        set
    }
}

impl Scopes {
    pub fn iter(&self) -> impl Iterator<Item = &Scope> {
        self.0.iter()
    }

    pub fn contains(&self, scope: &Scope) -> bool {
        self.0.contains(scope)
    }

    fn add(&mut self, scope: Scope) {
        if !self.contains(&scope) {
            self.0.push(scope);
        }
    }

    /// Whether one scope of the set allows `need`.
    pub fn allows(&self, need: &Need<'_>) -> bool {
        need.is_met(self)
    }

    /// Whether this set allows everything that `others` allows. Permission sets are compared by name only: expand both
    /// sides first to compare their permissions.
    pub fn covers(&self, others: &Self) -> bool {
        others.iter().all(|scope| {
            self.contains(scope)
                || Need::all_of(scope).is_some_and(|needs| needs.iter().all(|need| self.allows(need)))
        })
    }

    /// This set with the DID of the account that grants it in place of `self`, the authority of spaces.
    #[must_use]
    pub fn granted_by(&self, account: &Did) -> Self {
        let scopes = self.iter().map(|scope| match scope {
            Scope::Space(space) => Scope::Space(space.granted_by(account)),
            other => other.clone(),
        });
        scopes.collect()
    }

    /// This set with each `include:` replaced by the scopes of its permission set. An `include:` that `find` does not
    /// know stays.
    #[must_use]
    pub fn expanded(&self, find: impl Fn(&Include) -> Option<PermissionSet>) -> Self {
        let scopes = self.iter().flat_map(|scope| match scope {
            Scope::Include(include) => match find(include) {
                Some(set) => include.scopes_of(&set),
                None => vec![scope.clone()],
            },
            other => vec![other.clone()],
        });
        scopes.collect()
    }
}

impl fmt::Display for Scopes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, scope) in self.iter().enumerate() {
            write!(f, "{}{scope}", if n == 0 { "" } else { " " })?;
        }
        Ok(())
    }
}
