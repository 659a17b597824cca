//! OAuth scopes of atproto: what an application may do in a user's name.
//!
//! A scope string is a list of scopes with blanks between them (RFC 6749 §3.3); a scope is `resource:positional?name=value`
//! (atproto permission specification). Every question about them is a [`Need`] put to a set of [`Scopes`]: whether a call is
//! allowed, and whether one set lies within another, which is the same question once for each part of it.

mod include;
mod meet;
mod need;
mod permission;
mod text;

#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;

pub use include::{Include, PermissionSet};
pub use need::Need;
pub use permission::{
    Account, AccountAction, AccountAttribute, Blob, Identity, IdentityAttribute, Names, Repo, RepoAction, Rpc,
};

/// Bytes of a scope string: what authorization servers take in a request.
pub const MAX_BYTES: usize = 8 << 10;

/// What is wrong with a scope string, for whoever wrote it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScopeError {
    #[error("scopes are longer than {MAX_BYTES} bytes")]
    TooLong,
    #[error("scopes are printable ASCII without quotes and backslashes, with blanks between them")]
    Character,
    #[error("the scope {scope} is not valid: {why}")]
    Invalid { scope: String, why: &'static str },
}

/// One scope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// That the session is an atproto session at all; the account's DID with it.
    Atproto,
    /// Everything in the repo, blobs, and all methods but those of chats: the rights of an app password.
    TransitionGeneric,
    TransitionEmail,
    TransitionChat,
    Repo(Repo),
    Rpc(Rpc),
    Blob(Blob),
    Account(Account),
    Identity(Identity),
    Include(Include),
    /// One that is not known here. It is passed on, and allows nothing.
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
    /// For what can be no scope, and for a resource that is known with parameters that are not.
    fn from_str(scope: &str) -> Result<Self, ScopeError> {
        if let Some((_, known)) = STATIC.iter().find(|(name, _)| *name == scope) {
            return Ok(known.clone());
        }
        let invalid = |why| ScopeError::Invalid { scope: scope.to_owned(), why };
        let parts = text::Parts::of(scope).map_err(invalid)?;
        match parts.resource {
            "repo" => Repo::read(parts).map(Self::Repo),
            "rpc" => Rpc::read(parts).map(Self::Rpc),
            "blob" => Blob::read(parts).map(Self::Blob),
            "account" => Account::read(parts).map(Self::Account),
            "identity" => Identity::read(parts).map(Self::Identity),
            "include" => Include::read(parts).map(Self::Include),
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
            Self::Include(include) => include.fmt(f),
            Self::Other(text) => f.write_str(text),
            fixed => {
                STATIC.iter().filter(|(_, scope)| scope == fixed).try_for_each(|(name, _)| f.write_str(name))
            }
        }
    }
}

/// A set of scopes, in the order they were written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scopes(Vec<Scope>);

impl FromStr for Scopes {
    type Err = ScopeError;

    /// Reads a scope string. Nothing at all is the empty set.
    ///
    /// # Errors
    /// Says which scope is wrong.
    fn from_str(text: &str) -> Result<Self, ScopeError> {
        if text.len() > MAX_BYTES {
            return Err(ScopeError::TooLong);
        }
        if !text.bytes().all(|b| matches!(b, b' ' | 0x21 | 0x23..=0x5b | 0x5d..=0x7e)) {
            return Err(ScopeError::Character);
        }
        text.split(' ').filter(|scope| !scope.is_empty()).map(str::parse).collect()
    }
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

    /// Whether the set allows something.
    pub fn allows(&self, need: &Need<'_>) -> bool {
        need.is_met(self)
    }

    /// Whether `others` ask for nothing beyond this set. Permission sets count as what they are called: expand both sides
    /// to compare what they hold.
    pub fn covers(&self, others: &Self) -> bool {
        others.iter().all(|scope| {
            self.contains(scope)
                || Need::all_of(scope).is_some_and(|needs| needs.iter().all(|need| self.allows(need)))
        })
    }

    /// With each `include:` replaced by what the permission set of that name allows; one that `find` does not know stays.
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
