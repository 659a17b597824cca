//! The scopes of the resources `repo`, `rpc`, `blob`, `account` and `identity`.

use std::fmt;

use super::text::{self, ScopeText};
use crate::atproto::{Did, Nsid, is_service_fragment};

/// A list of NSIDs, or all NSIDs (`*`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Names {
    Any,
    /// Sorted, without duplicates.
    List(Vec<Nsid>),
}

impl Names {
    pub(super) fn read(values: &[&str]) -> Result<Self, &'static str> {
        let mut names = Vec::with_capacity(values.len());
        for value in values {
            if *value != "*" {
                names.push(Nsid::try_from(*value).map_err(|_| "one of its values is not an NSID")?);
            }
        }
        if names.len() < values.len() {
            return Ok(Self::Any);
        }
        names.sort_by(|a, b| a.as_str().cmp(b.as_str()));
        names.dedup();
        Ok(Self::List(names))
    }

    pub(super) fn texts(&self) -> Vec<&str> {
        match self {
            Self::Any => vec!["*"],
            Self::List(names) => names.iter().map(Nsid::as_str).collect(),
        }
    }

    /// Whether `name` is included; `None` stands for all NSIDs.
    pub(super) fn has(&self, name: Option<&str>) -> bool {
        match self {
            Self::Any => true,
            Self::List(names) => name.is_some_and(|name| names.iter().any(|n| n.as_str() == name)),
        }
    }
}

/// Reads each word; the result is sorted and has no duplicates.
pub(super) fn read_all<T: Ord>(
    words: &[&str],
    read: impl Fn(&str) -> Result<T, &'static str>,
) -> Result<Vec<T>, &'static str> {
    let mut all: Vec<T> = words.iter().map(|word| read(word)).collect::<Result<_, _>>()?;
    all.sort_unstable();
    all.dedup();
    Ok(all)
}

/// Defines an enum of the keywords of a parameter.
macro_rules! keywords {
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
                match word { $($word => Ok(Self::$variant),)+ _ => Err("it has an unknown action or attribute") }
            }
        }
    };
}
pub(super) use keywords;

keywords! {
    /// The actions on a record.
    RepoAction { Create "create", Update "update", Delete "delete" }
}
keywords! {
    /// One of the account's settings at its PDS.
    AccountAttribute { Email "email", Repo "repo", Status "status" }
}
keywords! {
    /// The actions on an attribute. Managing includes reading.
    AccountAction { Read "read", Manage "manage" }
}
keywords! {
    /// An attribute of the account's identity; `*` stands for all.
    IdentityAttribute { Handle "handle", Any "*" }
}

/// `repo:<collection>?action=…`: writes to records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repo {
    pub collections: Names,
    /// Sorted; all three when the scope names none.
    pub actions: Vec<RepoAction>,
}

impl Repo {
    pub(super) fn read(scope_text: ScopeText<'_>) -> Result<Self, &'static str> {
        scope_text.allow_only(&["collection", "action"])?;
        let collections = scope_text.values("collection", true)?.ok_or("the collection is missing")?;
        let actions = match scope_text.values("action", false)? {
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

/// `rpc:<lxm>?aud=…`: service auth tokens for methods of other servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rpc {
    pub methods: Names,
    /// A DID with a service fragment; `None` for all (`*`).
    pub audience: Option<String>,
}

/// Whether a text names a service: a DID with a fragment.
pub(super) fn is_audience(text: &str) -> bool {
    text.split_once('#').is_some_and(|(did, fragment)| Did::is_valid(did) && is_service_fragment(fragment))
}

impl Rpc {
    pub(super) fn read(scope_text: ScopeText<'_>) -> Result<Self, &'static str> {
        scope_text.allow_only(&["lxm", "aud"])?;
        let methods = scope_text.values("lxm", true)?.ok_or("the method is missing")?;
        let audience = match scope_text.value("aud", false)? {
            None => return Err("the audience is missing"),
            Some("*") => None,
            Some(audience) if is_audience(audience) => Some(audience.to_owned()),
            Some(_) => return Err("its audience is not a DID with a service fragment"),
        };
        let methods = Names::read(&methods)?;
        if methods == Names::Any && audience.is_none() {
            return Err("it must not allow all methods of all servers");
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

/// `blob:<type>`: blob uploads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blob {
    /// Media types or ranges (`image/*`, `*/*`) in lower case; sorted, without duplicates.
    pub types: Vec<String>,
}

impl Blob {
    pub(super) fn read(scope_text: ScopeText<'_>) -> Result<Self, &'static str> {
        scope_text.allow_only(&["accept"])?;
        let values = scope_text.values("accept", true)?.ok_or("the media type is missing")?;
        let mut types: Vec<String> = values.iter().map(|value| value.to_ascii_lowercase()).collect();
        if !types.iter().all(|kind| is_media_range(kind)) {
            return Err("one of its values is not a media type");
        }
        if types.iter().any(|kind| kind == "*/*") {
            types = vec!["*/*".to_owned()];
        }
        types.sort_unstable();
        types.dedup();
        Ok(Self { types })
    }

    /// Whether uploads of a media type, or of all types in a range, are allowed.
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
    /// Sorted; only reading when the scope names none.
    pub actions: Vec<AccountAction>,
}

impl Account {
    pub(super) fn read(scope_text: ScopeText<'_>) -> Result<Self, &'static str> {
        scope_text.allow_only(&["attr", "action"])?;
        let attribute =
            AccountAttribute::read(scope_text.value("attr", true)?.ok_or("the attribute is missing")?)?;
        let actions = match scope_text.values("action", false)? {
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
    pub(super) fn read(scope_text: ScopeText<'_>) -> Result<Self, &'static str> {
        scope_text.allow_only(&["attr"])?;
        let attribute = scope_text.value("attr", true)?.ok_or("the attribute is missing")?;
        Ok(Self { attribute: IdentityAttribute::read(attribute)? })
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        text::write(f, "identity", ("attr", &[self.attribute.as_str()]), &[])
    }
}
