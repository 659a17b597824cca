//! Checks whether scopes allow a single permission.

use super::permission::{AccountAction, AccountAttribute, IdentityAttribute, Names, RepoAction};
use super::space::{SpaceAction, SpaceManage, SpacePlace};
use super::{Scope, Scopes};
use crate::atproto::Nsid;

/// The only namespace whose methods `transition:generic` does not allow.
pub(super) const CHAT: &str = "chat.bsky.";

/// A single permission that a call needs. `None` stands for all collections, methods or audiences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need<'a> {
    Repo {
        collection: Option<&'a str>,
        action: RepoAction,
    },
    Rpc {
        method: Option<&'a str>,
        /// A DID with a service fragment.
        audience: Option<&'a str>,
    },
    /// A method of some other server; which one it is, is not known here.
    Method {
        name: &'a str,
    },
    /// A media type in lower case without parameters, or a range like `image/*`.
    Blob {
        kind: &'a str,
    },
    Account {
        attribute: AccountAttribute,
        action: AccountAction,
    },
    Identity {
        attribute: IdentityAttribute,
    },
    /// An action on records of a space.
    Space {
        at: SpacePlace<'a>,
        collection: Option<&'a str>,
        /// Whether the lexicon of the space's type declares the collection. Without a collection: all that it declares.
        is_declared: bool,
        action: SpaceAction,
    },
    ManageSpace {
        at: SpacePlace<'a>,
        action: SpaceManage,
    },
}

/// One item for each name, or a single `None` for all.
fn each(names: &Names) -> Vec<Option<&str>> {
    match names {
        Names::Any => vec![None],
        Names::List(names) => names.iter().map(|name| Some(Nsid::as_str(name))).collect(),
    }
}

impl<'a> Need<'a> {
    /// All needs that a scope meets; `None` for a scope that meets none by itself, or whose needs can't be listed.
    pub(super) fn all_of(scope: &'a Scope) -> Option<Vec<Self>> {
        Some(match scope {
            Scope::Repo(repo) => {
                let pairs = each(&repo.collections).into_iter();
                pairs
                    .flat_map(|collection| {
                        repo.actions.iter().map(move |&action| Self::Repo { collection, action })
                    })
                    .collect()
            }
            Scope::Rpc(rpc) => {
                let audience = rpc.audience.as_deref();
                each(&rpc.methods).into_iter().map(|method| Self::Rpc { method, audience }).collect()
            }
            Scope::Blob(blob) => blob.types.iter().map(|kind| Self::Blob { kind }).collect(),
            Scope::Account(account) => {
                let attribute = account.attribute;
                account.actions.iter().map(|&action| Self::Account { attribute, action }).collect()
            }
            Scope::Identity(identity) => vec![Self::Identity { attribute: identity.attribute }],
            Scope::Space(space) => {
                let at = space.place();
                let collections = match &space.collections {
                    Some(names) => each(names).into_iter().map(|name| (name, false)).collect(),
                    None => vec![(None, true)],
                };
                let records = collections.into_iter().flat_map(|(collection, is_declared)| {
                    let of = move |&action: &_| Self::Space { at, collection, is_declared, action };
                    space.actions.iter().map(of)
                });
                let manage = space.manage.iter().map(|&action| Self::ManageSpace { at, action });
                records.chain(manage).collect()
            }
            Scope::Atproto
            | Scope::TransitionGeneric
            | Scope::TransitionEmail
            | Scope::TransitionChat
            | Scope::Include(_)
            | Scope::Other(_) => return None,
        })
    }

    /// Whether at least one of the scopes meets this need.
    pub(super) fn is_met(&self, scopes: &Scopes) -> bool {
        scopes.iter().any(|scope| self.is_met_by(scope))
    }

    fn is_met_by(&self, scope: &Scope) -> bool {
        match (self, scope) {
            (Self::Repo { .. } | Self::Blob { .. }, Scope::TransitionGeneric) => true,
            // `None`, all methods, includes `chat.bsky.*`.
            (Self::Rpc { method, .. }, Scope::TransitionGeneric) => {
                method.is_some_and(|m| !m.starts_with(CHAT))
            }
            (Self::Rpc { method, .. }, Scope::TransitionChat) => method.is_some_and(|m| m.starts_with(CHAT)),
            (Self::Method { name }, Scope::TransitionGeneric) => !name.starts_with(CHAT),
            (Self::Method { name }, Scope::TransitionChat) => name.starts_with(CHAT),
            (Self::Method { name }, Scope::Rpc(rpc)) => rpc.methods.has(Some(name)),
            (Self::Account { attribute, action }, Scope::TransitionEmail) => {
                (*attribute, *action) == (AccountAttribute::Email, AccountAction::Read)
            }
            (Self::Repo { collection, action }, Scope::Repo(repo)) => {
                repo.actions.contains(action) && repo.collections.has(*collection)
            }
            (Self::Rpc { method, audience }, Scope::Rpc(rpc)) => {
                (rpc.audience.is_none() || rpc.audience.as_deref() == *audience) && rpc.methods.has(*method)
            }
            (Self::Blob { kind }, Scope::Blob(blob)) => blob.has(kind),
            (Self::Account { attribute, action }, Scope::Account(account)) => {
                account.attribute == *attribute
                    && (account.actions.contains(action) || account.actions.contains(&AccountAction::Manage))
            }
            (Self::Identity { attribute }, Scope::Identity(identity)) => {
                identity.attribute == IdentityAttribute::Any || identity.attribute == *attribute
            }
            (Self::Space { at, collection, is_declared, action }, Scope::Space(space)) => {
                space.is_about(*at)
                    && space.has_collection(*collection, *is_declared)
                    && space.has_action(*action)
            }
            (Self::ManageSpace { at, action }, Scope::Space(space)) => {
                space.is_about(*at) && space.manage.contains(action)
            }
            _ => false,
        }
    }
}
