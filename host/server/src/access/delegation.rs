//! Checks callers' roles in linked accounts, which several users write for (auth-and-clients.md §10). A delegation
//! belongs to one API client; other clients can't use it.

use super::Access;
use belvedere_protocol::atproto::Did;
use belvedere_storage::store::delegates::{self, DelegateRow};
use belvedere_web::http::Error;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Sees the account and its delegates.
    Member,
    /// Also writes to the account, and adds and removes members.
    Admin,
    /// Linked the account. Also adds and removes admins, and may unlink the account.
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

/// A caller's role in a linked account.
#[derive(Clone, Debug)]
pub enum CallerRole {
    /// The caller is the account itself: it sees its delegates, removes any but the owner, and may unlink itself.
    Account,
    Delegate(Role),
}

impl CallerRole {
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Account => "account",
            Self::Delegate(role) => role.as_str(),
        }
    }

    /// Whether it may unlink the account.
    pub fn may_unlink(&self) -> bool {
        matches!(self, Self::Account | Self::Delegate(Role::Owner))
    }

    /// Whether it may remove a delegate with this role.
    pub fn may_remove(&self, other: Role) -> bool {
        match self {
            Self::Account => true,
            Self::Delegate(own) => *own > other,
        }
    }
}

/// The caller's role in a linked account, which may be the caller itself.
///
/// # Errors
/// As [`delegate`].
pub async fn caller_role(
    access: &Access,
    client: &str,
    account: &Did,
    user: &Did,
) -> Result<CallerRole, Error> {
    if account == user {
        linked(access, client, account).await?;
        return Ok(CallerRole::Account);
    }
    delegate(access, client, account, user).await.map(CallerRole::Delegate)
}

/// The user's role in a linked account.
///
/// # Errors
/// 404 for an account that is not linked, 403 for one that is linked under another client only, and for a user that is
/// not a delegate.
pub async fn delegate(access: &Access, client: &str, account: &Did, user: &Did) -> Result<Role, Error> {
    let all = linked(access, client, account).await?;
    let row = all.into_iter().find(|row| row.user_did == user.as_str());
    let row = row.ok_or_else(|| Error::forbidden("you are not a delegate of this account"))?;
    Ok(Role::from_name(&row.role).unwrap_or(Role::Member))
}

/// All delegates of a linked account.
async fn linked(access: &Access, client: &str, account: &Did) -> Result<Vec<DelegateRow>, Error> {
    let all = delegates::of_account(&access.core.db, client, account.as_str()).await?;
    if all.is_empty() {
        if delegates::linked_elsewhere(&access.core.db, client, account.as_str()).await? {
            return Err(Error::forbidden("delegation is scoped to a different application"));
        }
        return Err(Error::not_found("delegated account not found"));
    }
    Ok(all)
}

/// Like [`delegate`], requiring `role` or a higher one.
///
/// # Errors
/// As [`delegate`], and 403 for a lower role.
pub async fn require_role(
    access: &Access,
    client: &str,
    account: &Did,
    user: &Did,
    role: Role,
) -> Result<Role, Error> {
    let found = delegate(access, client, account, user).await?;
    if found < role {
        return Err(Error::forbidden(format!("requires the role {} in this account", role.as_str())));
    }
    Ok(found)
}
