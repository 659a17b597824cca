//! Who may do what for an account that several people write for (auth-and-clients.md §10). All of it is within one API
//! client: another application knows nothing of it.

use crate::api::failed;
use crate::app::App;
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

/// The caller's part in an account.
///
/// # Errors
/// 404 for an account that is not linked, 403 for somebody who has no part in it.
pub async fn delegate(app: &App, client: &str, account: &Did, user: &Did) -> Result<Delegate, Error> {
    let all = delegates::of_account(&app.db, client, account.as_str()).await.map_err(failed)?;
    if all.is_empty() {
        if delegates::linked_elsewhere(&app.db, client, account.as_str()).await.map_err(failed)? {
            return Err(Error::forbidden("delegation is scoped to a different application"));
        }
        return Err(Error::not_found("delegated account not found"));
    }
    let row = all.into_iter().find(|row| row.user_did == user.as_str());
    let row = row.ok_or_else(|| Error::forbidden("you are not a delegate of this account"))?;
    Ok(Delegate { role: Role::from_name(&row.role).unwrap_or(Role::Member), row })
}

/// As [`delegate`], for what takes at least a role.
///
/// # Errors
/// 403 for less.
pub async fn at_least(
    app: &App,
    client: &str,
    account: &Did,
    user: &Did,
    role: Role,
) -> Result<Delegate, Error> {
    let found = delegate(app, client, account, user).await?;
    if found.role < role {
        return Err(Error::forbidden(format!("that takes the role {} of this account", role.as_str())));
    }
    Ok(found)
}
