//! Who may do what for an account that several people write for (auth-and-clients.md §10). All of it is within one API
//! client: another application knows nothing of it.

use super::Access;
use crate::atproto::Did;
use crate::http::Error;
use crate::store::delegates::{self, DelegateRow};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Is told of the account, and no more.
    Member,
    /// Writes, and looks after members.
    Admin,
    /// Linked the account, and may undo it.
    Owner,
}

impl Role {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Member => "member",
            Self::Admin => "admin",
            Self::Owner => "owner",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Member, Self::Admin, Self::Owner].into_iter().find(|role| role.as_str() == name)
    }
}

/// A delegate's row, and its role.
#[derive(Clone, Debug)]
pub struct Delegate {
    pub row: DelegateRow,
    pub role: Role,
}

/// A caller's part in an account.
#[derive(Clone, Debug)]
pub enum Part {
    /// The caller is the account itself: it sees who writes for it, and ends that.
    Account,
    Delegate(Delegate),
}

impl Part {
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Account => "account",
            Self::Delegate(delegate) => delegate.role.as_str(),
        }
    }

    /// Whether it may end the delegation as a whole.
    pub fn may_unlink(&self) -> bool {
        matches!(self, Self::Account | Self::Delegate(Delegate { role: Role::Owner, .. }))
    }

    /// Whether it may take the part of another with this role.
    pub fn may_remove(&self, other: Role) -> bool {
        match self {
            Self::Account => true,
            Self::Delegate(own) => own.role > other,
        }
    }
}

/// The caller's part in an account, be it that the caller is the account.
///
/// # Errors
/// As [`delegate`].
pub async fn part(access: &Access, client: &str, account: &Did, user: &Did) -> Result<Part, Error> {
    if account == user {
        linked(access, client, account).await?;
        return Ok(Part::Account);
    }
    delegate(access, client, account, user).await.map(Part::Delegate)
}

/// A delegate of an account.
///
/// # Errors
/// 404 for an account that is not linked, 403 for a user who has no part in it.
pub async fn delegate(access: &Access, client: &str, account: &Did, user: &Did) -> Result<Delegate, Error> {
    let all = linked(access, client, account).await?;
    let row = all.into_iter().find(|row| row.user_did == user.as_str());
    let row = row.ok_or_else(|| Error::forbidden("you are not a delegate of this account"))?;
    Ok(Delegate { role: Role::from_name(&row.role).unwrap_or(Role::Member), row })
}

/// All delegates of an account that is linked.
async fn linked(access: &Access, client: &str, account: &Did) -> Result<Vec<DelegateRow>, Error> {
    let all = delegates::of_account(&access.db, client, account.as_str()).await?;
    if all.is_empty() {
        if delegates::linked_elsewhere(&access.db, client, account.as_str()).await? {
            return Err(Error::forbidden("delegation is scoped to a different application"));
        }
        return Err(Error::not_found("delegated account not found"));
    }
    Ok(all)
}

/// As [`delegate`], for what takes at least a role.
///
/// # Errors
/// 403 for less.
pub async fn at_least(
    access: &Access,
    client: &str,
    account: &Did,
    user: &Did,
    role: Role,
) -> Result<Delegate, Error> {
    let found = delegate(access, client, account, user).await?;
    if found.role < role {
        return Err(Error::forbidden(format!("that takes the role {} of this account", role.as_str())));
    }
    Ok(found)
}
