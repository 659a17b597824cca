//! Scopes of resources: `repo`, `rpc`, `blob`, `account`, `identity`.

use std::fmt;

use super::text::{self, Parts};
use crate::atproto::{Did, Nsid};

/// NSIDs, or all there are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Names {
    Any,
    /// Sorted, each once.
    These(Vec<Nsid>),
}

impl Names {
    fn read(values: &[&str]) -> Result<Self, &'static str> {
        let mut names = Vec::with_capacity(values.len());
        for value in values {
            if *value != "*" {
                names.push(Nsid::try_from(*value).map_err(|_| "it has something in it that is not an NSID")?);
            }
        }
        if names.len() < values.len() {
            return Ok(Self::Any);
        }
        names.sort_by(|a, b| a.as_str().cmp(b.as_str()));
        names.dedup();
        Ok(Self::These(names))
    }

    fn texts(&self) -> Vec<&str> {
        match self {
            Self::Any => vec!["*"],
            Self::These(names) => names.iter().map(Nsid::as_str).collect(),
        }
    }

    /// Whether `name` is among them; `None` asks for all.
    pub(super) fn has(&self, name: Option<&str>) -> bool {
        match self {
            Self::Any => true,
            Self::These(names) => name.is_some_and(|name| names.iter().any(|n| n.as_str() == name)),
        }
    }
}

/// Sorted, each once.
fn read_all<T: Ord>(
    words: &[&str],
    read: impl Fn(&str) -> Result<T, &'static str>,
) -> Result<Vec<T>, &'static str> {
    let mut all: Vec<T> = words.iter().map(|word| read(word)).collect::<Result<_, _>>()?;
    all.sort_unstable();
    all.dedup();
    Ok(all)
}

/// A closed list of words in scopes.
macro_rules! words {
    ($(#[$meta:meta])* $type:ident { $($variant:ident $word:literal),+ }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $type { $($variant),+ }

        impl $type {
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }

            fn read(word: &str) -> Result<Self, &'static str> {
                match word { $($word => Ok(Self::$variant),)+ _ => Err("it has a word that its resource does not know") }
            }
        }
    };
}

words! {
    /// What is done to a record.
    RepoAction { Create "create", Update "update", Delete "delete" }
}
words! {
    /// A part of the account's settings at its PDS.
    AccountAttribute { Email "email", Repo "repo", Status "status" }
}
words! {
    /// What is done to an attribute; managing includes reading.
    AccountAction { Read "read", Manage "manage" }
}
words! {
    /// A part of the account's identity; all of them with `*`.
    IdentityAttribute { Handle "handle", Any "*" }
}

/// `repo:<collection>?action=…`: writes to records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repo {
    pub collections: Names,
    /// Sorted; all three when the scope does not say.
    pub actions: Vec<RepoAction>,
}

impl Repo {
    pub(super) fn read(parts: Parts<'_>) -> Result<Self, &'static str> {
        parts.only(&["collection", "action"])?;
        let collections = parts.values("collection", true)?.ok_or("it names no collection")?;
        let actions = match parts.values("action", false)? {
            Some(words) => read_all(&words, RepoAction::read)?,
            None => RepoAction::ALL.to_vec(),
        };
        Ok(Self { collections: Names::read(&collections)?, actions })
    }
}

impl fmt::Display for Repo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let actions: Vec<&str> = self.actions.iter().map(|action| action.as_str()).collect();
        let actions = if actions.len() == RepoAction::ALL.len() { Vec::new() } else { actions };
        text::write(f, "repo", ("collection", &self.collections.texts()), &[("action", &actions)])
    }
}

/// `rpc:<lxm>?aud=…`: service tokens for methods of other servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rpc {
    pub methods: Names,
    /// A DID with a service's fragment; `None` for all (`*`).
    pub audience: Option<String>,
}

/// Whether a text names a service: a DID with one fragment.
pub(super) fn is_audience(text: &str) -> bool {
    text.split_once('#').is_some_and(|(did, fragment)| {
        let is_fragment = |b: u8| b.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@/?%".contains(&b);
        Did::is_valid(did) && !fragment.is_empty() && fragment.bytes().all(is_fragment)
    })
}

impl Rpc {
    pub(super) fn read(parts: Parts<'_>) -> Result<Self, &'static str> {
        parts.only(&["lxm", "aud"])?;
        let methods = parts.values("lxm", true)?.ok_or("it names no method")?;
        let audience = match parts.value("aud", false)? {
            None => return Err("it names no audience"),
            Some("*") => None,
            Some(audience) if is_audience(audience) => Some(audience.to_owned()),
            Some(_) => return Err("its audience is not a DID with the fragment of a service"),
        };
        let methods = Names::read(&methods)?;
        if methods == Names::Any && audience.is_none() {
            return Err("all methods of all servers are too much");
        }
        Ok(Self { methods, audience })
    }
}

impl fmt::Display for Rpc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let audience = self.audience.as_deref().unwrap_or("*");
        text::write(f, "rpc", ("lxm", &self.methods.texts()), &[("aud", &[audience])])
    }
}

/// `blob:<type>`: uploads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blob {
    /// Media types in lower case, `image/*` and `*/*` among them; sorted, each once.
    pub types: Vec<String>,
}

impl Blob {
    pub(super) fn read(parts: Parts<'_>) -> Result<Self, &'static str> {
        parts.only(&["accept"])?;
        let values = parts.values("accept", true)?.ok_or("it names no media type")?;
        let mut types: Vec<String> = values.iter().map(|value| value.to_ascii_lowercase()).collect();
        if !types.iter().all(|kind| is_media_range(kind)) {
            return Err("it has something in it that is not a media type");
        }
        if types.iter().any(|kind| kind == "*/*") {
            types = vec!["*/*".to_owned()];
        }
        types.sort_unstable();
        types.dedup();
        Ok(Self { types })
    }

    /// Whether uploads of a media type are covered, or all of a range.
    pub(super) fn has(&self, kind: &str) -> bool {
        self.types.iter().any(|own| match own.strip_suffix('*') {
            Some("*/") => true,
            Some(prefix) => kind.starts_with(prefix),
            None => own == kind,
        })
    }
}

/// `type/subtype`, `type/*` or `*/*`.
fn is_media_range(kind: &str) -> bool {
    let token = |text: &str| {
        !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&b))
    };
    kind == "*/*" || kind.split_once('/').is_some_and(|(a, b)| token(a) && (token(b) || b == "*"))
}

impl fmt::Display for Blob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let types: Vec<&str> = self.types.iter().map(String::as_str).collect();
        text::write(f, "blob", ("accept", &types), &[])
    }
}

/// `account:<attribute>?action=…`: the account at its PDS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    pub attribute: AccountAttribute,
    /// Sorted; reading when the scope does not say.
    pub actions: Vec<AccountAction>,
}

impl Account {
    pub(super) fn read(parts: Parts<'_>) -> Result<Self, &'static str> {
        parts.only(&["attr", "action"])?;
        let attribute = AccountAttribute::read(parts.value("attr", true)?.ok_or("it names no attribute")?)?;
        let actions = match parts.values("action", false)? {
            Some(words) => read_all(&words, AccountAction::read)?,
            None => vec![AccountAction::Read],
        };
        Ok(Self { attribute, actions })
    }
}

impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let actions: Vec<&str> = self.actions.iter().map(|action| action.as_str()).collect();
        let actions = if actions == ["read"] { Vec::new() } else { actions };
        text::write(f, "account", ("attr", &[self.attribute.as_str()]), &[("action", &actions)])
    }
}

/// `identity:<attribute>`: the account's DID document and handle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    pub attribute: IdentityAttribute,
}

impl Identity {
    pub(super) fn read(parts: Parts<'_>) -> Result<Self, &'static str> {
        parts.only(&["attr"])?;
        let attribute = parts.value("attr", true)?.ok_or("it names no attribute")?;
        Ok(Self { attribute: IdentityAttribute::read(attribute)? })
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        text::write(f, "identity", ("attr", &[self.attribute.as_str()]), &[])
    }
}
