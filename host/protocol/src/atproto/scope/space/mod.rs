//! The scope of the resource `space`: permissioned spaces (spaces.md §4.1, spaces-delta.md §4).

#[cfg(test)]
mod tests;

use std::fmt;

use super::permission::{Names, keywords, read_all};
use super::text::{self, ScopeText};
use crate::atproto::{Did, Nsid, RecordKey};

keywords! {
    /// The actions on records of a space. Reading includes reading the own records.
    SpaceAction { Read "read", ReadSelf "read_self", Create "create", Update "update", Delete "delete" }
}
keywords! {
    /// The actions on a space itself. Updating includes its members.
    SpaceManage { Create "create", Update "update", Delete "delete" }
}

/// The actions of a scope that names none. They include reading the own records.
const DEFAULT_ACTIONS: [SpaceAction; 4] =
    [SpaceAction::Read, SpaceAction::Create, SpaceAction::Update, SpaceAction::Delete];

/// The authority of a space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SpaceAuthority {
    /// The account that granted the scope (`self`).
    Own,
    Did(Did),
    Any,
}

/// `space:<type>?authority=…&skey=…&collection=…&action=…&manage=…`: records in spaces, and the spaces themselves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Space {
    /// `None` for all types.
    pub kind: Option<Nsid>,
    pub authority: SpaceAuthority,
    /// `None` for all keys.
    pub skey: Option<RecordKey>,
    /// `None` for the collections that the lexicon of the type declares when the scope is used.
    pub collections: Option<Names>,
    /// Sorted and not empty.
    pub actions: Vec<SpaceAction>,
    /// Sorted.
    pub manage: Vec<SpaceManage>,
}

/// The space that a call is about. `None` stands for all types or keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpacePlace<'a> {
    pub kind: Option<&'a str>,
    pub authority: &'a SpaceAuthority,
    pub skey: Option<&'a str>,
}

impl SpaceAuthority {
    fn read(text: &str) -> Result<Self, &'static str> {
        match text {
            "self" => Ok(Self::Own),
            "*" => Ok(Self::Any),
            did => Did::try_from(did).map(Self::Did).map_err(|_| "its authority is not a DID, self or *"),
        }
    }

    fn as_str(&self) -> &str {
        match self {
            Self::Own => "self",
            Self::Any => "*",
            Self::Did(did) => did.as_str(),
        }
    }
}

impl Space {
    pub(super) fn read(scope_text: ScopeText<'_>) -> Result<Self, &'static str> {
        scope_text.allow_only(&["spaceType", "authority", "skey", "collection", "action", "manage"])?;
        let kind = match scope_text.value("spaceType", true)?.ok_or("the type of space is missing")? {
            "*" => None,
            kind => Some(Nsid::try_from(kind).map_err(|_| "its type of space is not an NSID")?),
        };
        let skey = match scope_text.value("skey", false)? {
            None | Some("*") => None,
            Some(skey) => Some(RecordKey::try_from(skey).map_err(|_| "its space key is malformed")?),
        };
        let collections = scope_text.values("collection", false)?;
        let actions = match scope_text.values("action", false)? {
            Some(words) => read_all(&words, SpaceAction::read)?,
            None => DEFAULT_ACTIONS.to_vec(),
        };
        let manage = scope_text.values("manage", false)?.unwrap_or_default();
        Ok(Self {
            kind,
            authority: SpaceAuthority::read(scope_text.value("authority", false)?.unwrap_or("self"))?,
            skey,
            collections: collections.map(|names| Names::read(&names)).transpose()?,
            actions,
            manage: read_all(&manage, SpaceManage::read)?,
        })
    }

    /// The place that the scope is about, for a comparison with another scope.
    pub(super) fn place(&self) -> SpacePlace<'_> {
        SpacePlace {
            kind: self.kind.as_ref().map(Nsid::as_str),
            authority: &self.authority,
            skey: self.skey.as_ref().map(RecordKey::as_str),
        }
    }

    /// Whether the scope is about a space.
    pub(super) fn is_about(&self, place: SpacePlace<'_>) -> bool {
        let own = self.place();
        (own.kind.is_none() || own.kind == place.kind)
            && (self.authority == SpaceAuthority::Any || self.authority == *place.authority)
            && (own.skey.is_none() || own.skey == place.skey)
    }

    /// Whether the scope includes a collection; `None` stands for all, or for all declared ones if `is_declared`.
    pub(super) fn has_collection(&self, collection: Option<&str>, is_declared: bool) -> bool {
        self.collections.as_ref().map_or(is_declared, |names| names.has(collection))
    }

    pub(super) fn has_action(&self, action: SpaceAction) -> bool {
        self.actions.contains(&action)
            || action == SpaceAction::ReadSelf && self.actions.contains(&SpaceAction::Read)
    }

    /// The scope with the DID of the account that grants it in place of `self`.
    #[must_use]
    pub(super) fn granted_by(&self, account: &Did) -> Self {
        let mut granted = self.clone();
        if granted.authority == SpaceAuthority::Own {
            granted.authority = SpaceAuthority::Did(account.clone());
        }
        granted
    }

    /// The part that both scopes allow. `None` when that is nothing, or when no scope can express it: managing without an
    /// action on records, or those declared collections that are in a list.
    pub(super) fn intersect(&self, other: &Self) -> Option<Self> {
        let collections = match (&self.collections, &other.collections) {
            (None, None | Some(Names::Any)) | (Some(Names::Any), None) => None,
            (Some(a), Some(b)) => Some(a.intersect(b)?),
            (None, Some(Names::List(_))) | (Some(Names::List(_)), None) => return None,
        };
        let authority = match (&self.authority, &other.authority) {
            (SpaceAuthority::Any, authority) | (authority, SpaceAuthority::Any) => authority,
            (one, other) => (one == other).then_some(one)?,
        };
        let mut actions: Vec<SpaceAction> = SpaceAction::ALL.to_vec();
        actions.retain(|action| self.has_action(*action) && other.has_action(*action));
        if actions.contains(&SpaceAction::Read) {
            actions.retain(|action| *action != SpaceAction::ReadSelf);
        }
        let manage = self.manage.iter().filter(|action| other.manage.contains(action)).copied().collect();
        let both = Self {
            kind: common(self.kind.as_ref(), other.kind.as_ref())?,
            authority: authority.clone(),
            skey: common(self.skey.as_ref(), other.skey.as_ref())?,
            collections,
            actions,
            manage,
        };
        (!both.actions.is_empty()).then_some(both)
    }
}

/// The value that both allow, where `None` allows all; the outer `None` when there is none.
#[expect(clippy::option_option, reason = "no common value differs from all values")]
fn common<T: Clone + PartialEq>(a: Option<&T>, b: Option<&T>) -> Option<Option<T>> {
    match (a, b) {
        (Some(a), Some(b)) => (a == b).then(|| Some(a.clone())),
        (one, other) => Some(one.or(other).cloned()),
    }
}

impl fmt::Display for Space {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = self.place();
        let authority = Some(self.authority.as_str()).filter(|authority| *authority != "self");
        let (authority, skey): (Vec<&str>, Vec<&str>) =
            (authority.into_iter().collect(), place.skey.into_iter().collect());
        let collections = self.collections.as_ref().map(Names::texts).unwrap_or_default();
        let mut actions: Vec<&str> = self.actions.iter().map(|action| action.as_str()).collect();
        if self.actions == DEFAULT_ACTIONS {
            actions.clear();
        }
        let manage: Vec<&str> = self.manage.iter().map(|action| action.as_str()).collect();
        let others = [
            ("authority", &authority[..]),
            ("skey", &skey),
            ("collection", &collections),
            ("action", &actions),
            ("manage", &manage),
        ];
        text::write(f, "space", ("spaceType", &[place.kind.unwrap_or("*")]), &others)
    }
}
